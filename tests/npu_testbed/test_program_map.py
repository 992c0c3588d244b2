"""The map of the arena of a compiled network: what each operation left there, as long as somebody reads it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from asked_for import simulate_vela
from command_line import call
from cpu_networks import cpu_split_network

from npu_testbed.replays.simulation import Simulation
from npu_testbed.views.arena_map import AreaKind
from npu_testbed.views.program_map import program_map

pytestmark = pytest.mark.law

CASES = [("zoo:tiny_residual", "Size"), ("zoo:resnet8", "Size"), ("zoo:resnet8", "Performance"), ("zoo:ds_cnn", "Performance")]


@cache
def simulated(source: str, optimise: str) -> Simulation:
    return simulate_vela(source, optimise=optimise)


@pytest.mark.parametrize(("source", "optimise"), CASES)
def test_no_two_areas_hold_one_byte_at_one_time(source: str, optimise: str) -> None:
    slabs = [slab for area in program_map(simulated(source, optimise)).areas for slab in area.slabs]
    assert len(slabs) > 3
    for s, t in combinations(slabs, 2):
        assert s.start >= t.end or t.start >= s.end or s.low >= t.high or t.low >= s.high, (s, t)


@pytest.mark.parametrize(("source", "optimise"), CASES)
def test_the_map_ends_where_the_replay_and_the_arena_end(source: str, optimise: str) -> None:
    simulation = simulated(source, optimise)
    arena = program_map(simulation)
    slabs = [slab for area in arena.areas for slab in area.slabs]
    assert max(slab.high for slab in slabs) == simulation.replay.footprint.peak <= arena.arena_size
    assert (min(slab.start for slab in slabs), max(slab.end for slab in slabs)) == (0, simulation.replay.cycles)


@pytest.mark.parametrize(("source", "optimise"), CASES)
def test_the_map_shows_what_the_replay_counts_as_live_at_once(source: str, optimise: str) -> None:
    simulation = simulated(source, optimise)
    slabs = [slab for area in program_map(simulation).areas for slab in area.slabs]
    most = max(sum(s.high - s.low for s in slabs if s.start <= t.start < s.end) for t in slabs)
    # What an operation writes over leaves the map a moment before it ends, and what is copied comes a moment before it is its turn.
    assert 0.5 * simulation.replay.footprint.live_peak < most <= simulation.replay.footprint.peak


def test_buffered_weights_inputs_and_outputs_have_kinds_of_their_own() -> None:
    kinds = {area.kind for area in program_map(simulated("zoo:resnet8", "Performance")).areas}
    assert kinds >= {AreaKind.INPUT, AreaKind.OUTPUT, AreaKind.TENSOR, AreaKind.STAGED}


def test_a_fast_scratch_is_mapped_alone() -> None:
    simulation = simulate_vela(
        "zoo:resnet8", accelerator_config="ethos-u65-256", system_config="Ethos_U65_High_End", memory_mode="Dedicated_Sram"
    )
    assert simulation.fast_scratch
    slabs = [slab for area in program_map(simulation).areas for slab in area.slabs]
    assert max(slab.high for slab in slabs) == simulation.replay.footprint.peak


def test_the_command_draws_the_arena_of_a_network_with_operators_on_the_cpu(tmp_path: Path) -> None:
    model, picture = tmp_path / "split.tflite", tmp_path / "split.svg"
    model.write_bytes(cpu_split_network())
    assert call("simulate", "vela", model, "--sram-map", picture).status == 0
    assert ET.fromstring(picture.read_text(encoding="utf-8")).tag.endswith("svg")
