"""The map of the arena: areas that never meet, as high as the arena, from the first cycle to the last."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from asked_for import system_said
from command_line import call, refusal
from scheduling import DEFAULT, network
from scheduling import schedule as layer_by_layer

from cascader.draft.drafter import DraftOptions
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.options import CascadeOptions
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.views.arena_map import Area, AreaKind, ArenaMap, Slab, arena_map
from npu_testbed.views.sram_map import sram_map_svg
from sim import replay_network

pytestmark = pytest.mark.law

SYSTEM = system_said()


@cache
def cascader(name: str) -> Cascader:
    return Cascader(network(name), DEFAULT, SYSTEM, CascadeOptions(rungs=8, drafts=DraftOptions(moves=60)))


@cache
def cascaded(name: str, share: float) -> Schedule:
    """A schedule for a limit ``share`` of the way up the ladder: at the bottom stripes, at the top staged weights."""
    limits = cascader(name).limits()
    limit = max(limits[int(share * (len(limits) - 1))], cascader(name).smallest().memory)
    return cascader(name).schedule(cascader(name).drafts_at(limit)[0])


@cache
def mapped(name: str, share: float) -> ArenaMap:
    plan = cascaded(name, share)
    return arena_map(plan, replay_network(lower(plan), SYSTEM))


CASES = [("tiny_residual", 0.0), ("resnet8", 0.0), ("resnet8", 0.5), ("resnet8", 1.0)]


def meet(a: Area, b: Area) -> bool:
    return any(s.start < t.end and t.start < s.end and s.low < t.high and t.low < s.high for s in a.slabs for t in b.slabs)


@pytest.mark.parametrize(("name", "share"), CASES)
def test_no_two_areas_hold_one_byte_at_one_time(name: str, share: float) -> None:
    heirs = {frozenset(pair) for buffer in cascaded(name, share).buffers for pair in combinations(buffer.tensors, 2)}
    areas = mapped(name, share).areas
    for a, b in combinations(areas, 2):
        if AreaKind.STAGED in (a.kind, b.kind) or frozenset((a.name, b.name)) not in heirs:
            assert not meet(a, b), (a, b)


@pytest.mark.parametrize(("name", "share"), CASES)
def test_the_areas_are_as_high_as_the_arena_and_last_as_long_as_the_replay(name: str, share: float) -> None:
    arena = mapped(name, share)
    slabs = [slab for area in arena.areas for slab in area.slabs]
    assert 0 <= arena.arena_size - max(slab.high for slab in slabs) < 16
    assert min(slab.start for slab in slabs) == 0
    assert max(slab.end for slab in slabs) == arena.cycles
    assert arena.cycles == replay_network(lower(cascaded(name, share)), SYSTEM).cycles


def test_a_tensor_shrinks_row_by_row_as_a_cascade_eats_it() -> None:
    (image,) = (area for area in mapped("resnet8", 0.0).areas if area.kind is AreaKind.INPUT)
    lows = [slab.low for slab in image.slabs]
    assert len(lows) > 4
    assert lows == sorted(lows)


def test_stripes_have_rolling_buffers_and_staged_weights_are_areas_of_their_own() -> None:
    kinds = {area.kind for area in mapped("resnet8", 0.0).areas}
    assert AreaKind.ROLLING in kinds
    staged = [area for area in mapped("resnet8", 1.0).areas if area.kind is AreaKind.STAGED]
    assert len(staged) == len(cascaded("resnet8", 1.0).copies) > 0


def test_a_network_with_an_operator_on_the_cpu_is_mapped_across_it() -> None:
    plan = layer_by_layer("cpu")
    replay = replay_network(lower(plan), SYSTEM)
    arena = arena_map(plan, replay)
    assert arena.cycles == replay.cycles
    assert {area.kind for area in arena.areas} >= {AreaKind.INPUT, AreaKind.OUTPUT}


def test_transfers_of_feature_maps_are_jobs_of_the_map_like_kernels(tmp_path: Path) -> None:
    """Tensors that the DMA takes out of the arena and brings back; each has areas on both sides of its journey."""
    plan, words = tmp_path / "s.json", ("--arena-cache-size", 3072, "--effort", "quick", "--no-advice", "--jobs", "1")
    homes = ("--home", "input=ext", "--home", "output=ext", "--spill", "ext")
    assert call("schedule", "portfolio:residual_uint8", *homes, *words, "-o", plan, "--report", tmp_path / "s.html").status == 0
    made = read_schedule(plan)
    arena = arena_map(made, replay_network(lower(made), SYSTEM))
    assert max(slab.high for area in arena.areas for slab in area.slabs) <= arena.arena_size <= 3072
    assert max(slab.end for area in arena.areas for slab in area.slabs) == arena.cycles
    heirs = {frozenset(pair) for buffer in made.buffers for pair in combinations(buffer.tensors, 2)}
    for a, b in combinations((area for area in arena.areas if area.kind is not AreaKind.ROLLING), 2):
        assert frozenset((a.name, b.name)) in heirs or not meet(a, b), (a, b)
    for words in (("--sram-map", tmp_path / "m.svg"), ("--trace", tmp_path / "t.json")):
        assert call("simulate", "schedule", plan, "--no-advice", *words).status == 0


def test_a_picture_names_every_area_and_draws_the_end_of_the_arena() -> None:
    arena = ArenaMap("m<&>", "ethos-u55-128", 100, 64, (Area("a<b", AreaKind.TENSOR, (Slab(0, 50, 0, 64), Slab(60, 100, 16, 32))),))
    picture = sram_map_svg(arena)
    ET.fromstring(picture)
    assert "a&lt;b" in picture
    assert "end of the arena: 64 bytes" in picture
    (outline,) = (line for line in picture.splitlines() if "<title>" in line)
    assert outline.count("Z") == 2, "a gap in time parts an area in two"


def test_the_command_draws_the_map_of_a_schedule(tmp_path: Path) -> None:
    plan, picture = tmp_path / "s.json", tmp_path / "m.svg"
    assert call("schedule", "zoo:tiny_residual", "--no-cascade", "-o", plan).status == 0
    assert call("simulate", "schedule", plan, "--sram-map", picture).status == 0
    names = {name for buffer in layer_by_layer("tiny_residual").buffers for name in buffer.tensors}
    assert all(f"<title>{name}: " in picture.read_text() for name in names)
    assert str(plan) in refusal("simulate", "schedule", plan, "--sram-map", plan)
