"""The replay beside counters of silicon: 289 fully connected kernels on an Ethos-U55 with 256 MACs, rebuilt through Vela's API."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from reference_data import shared_data

from npu_model.accelerator import accelerator
from npu_model.command_stream.decode import decode_words
from npu_model.cost.mac_activity import mac_activity
from npu_model.memory.system import Memory, MemorySystem
from npu_model.program import Program
from npu_model.program.program import Region, RegionRole
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING
from sim import quick_replay, replay

api = pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

DEVICE = accelerator("ethos-u55-256")
CONSTANTS, ARENA, INPUT = 0, 1, 5
WEIGHTS_AT = 1024
"""Where the weights are copied to in the arena; not stated, and of no consequence but for the borders of transactions."""


@cache
def rows() -> tuple[dict[str, int], ...]:
    path = shared_data() / "silicon" / "alif_e7_fully_connected.csv"
    if not path.is_file():
        pytest.skip(f"the counters of silicon, {path.name}, are not among the reference data")
    with path.open(encoding="utf-8") as file:
        return tuple({key: int(value) for key, value in row.items()} for row in csv.DictReader(file))


def _map(region: int, depth: int) -> object:
    feature_map = api.NpuFeatureMap()
    feature_map.data_type, feature_map.region, feature_map.layout = api.NpuDataType.INT8, region, api.NpuLayout.NHWC
    feature_map.shape, feature_map.tiles = api.NpuShape3D(1, 1, depth), api.NpuTileBox(1, 0, 1, [0, 0, 0, 0])
    feature_map.quantization = api.NpuQuantization(1.0, 0)
    return feature_map


@cache
def program(inputs: int, outputs: int) -> Program:
    """A DMA of weights and biases, and one kernel of ``inputs`` and ``outputs`` channels in the last block config that Vela finds."""
    kernel, depth_first = api.NpuConv2DOperation(), api.NpuBlockTraversal.DEPTH_FIRST
    kernel.ifm, kernel.ofm, kernel.kernel = _map(INPUT, inputs), _map(ARENA, outputs), api.NpuKernel(1, 1)
    kernel.padding, kernel.block_traversal = api.NpuPadding(0, 0, 0, 0), depth_first
    kernel.weights, kernel.biases = [api.NpuAddressRange(ARENA, 0, 16)], [api.NpuAddressRange(ARENA, 16, 16)]
    device = api.NpuAccelerator.Ethos_U55_256
    kernel.block_config = api.npu_find_block_configs(kernel, device)[-1]
    volume = np.ones((outputs, 1, 1, inputs), dtype=np.int16)
    weights = bytes(
        api.npu_encode_weights(device, volume, (1, 1), 8, kernel.block_config.depth, is_depthwise=False, block_traversal=depth_first)
    )
    biases = bytes(api.npu_encode_bias(np.int64(0), 1 << 30, 30)) * outputs
    biases += bytes(-len(biases) % 16)
    kernel.weights = [api.NpuAddressRange(ARENA, WEIGHTS_AT, len(weights))]
    kernel.biases = [api.NpuAddressRange(ARENA, WEIGHTS_AT + len(weights), len(biases))]
    size = len(weights) + len(biases)
    copy = api.NpuDmaOperation(api.NpuAddressRange(CONSTANTS, 0, size), api.NpuAddressRange(ARENA, WEIGHTS_AT, size))
    operations, words = decode_words(tuple(api.npu_generate_register_command_stream([copy, kernel], device)))
    regions = (
        Region(CONSTANTS, RegionRole.CONSTANTS, size, weights + biases),
        Region(ARENA, RegionRole.ARENA, WEIGHTS_AT + size),
        Region(INPUT, RegionRole.UNUSED, inputs),
    )
    return Program(DEVICE.name, operations, words, regions)


def test_mac_active_and_mac_dpu_active_are_those_of_silicon_in_all_289_runs() -> None:
    assert len(rows()) == 289
    for row in rows():
        (kernel,) = program(row["in_channels"], row["out_channels"]).kernels
        activity = mac_activity(kernel, DEVICE)
        assert (activity.active, activity.dot_products) == (row["MAC_ACTIVE"], row["MAC_DPU_ACTIVE"]), row
        # Sixteen input channels take the array as long as 32, in half of whose cycles its dot products rest.
        assert activity.active == 4 * ceil_div(row["in_channels"], 32) * ceil_div(row["out_channels"], 8)


def one_port() -> MemorySystem:
    """All regions and the commands behind AXI0."""
    memory = Memory("any", 29, 29, shared=False)
    return MemorySystem("silicon", 1, (memory, memory), (0,) * 8, 0)


def test_axi0_reads_are_at_most_five_more_or_two_fewer_than_on_silicon() -> None:
    """Every second run. Copies and weights in 64 bytes, the IFM in 32, and the commands: mean difference of all runs 0.5."""
    off = []
    for row in rows()[::2]:
        run = replay(program(row["in_channels"], row["out_channels"]), one_port())
        pmu = run.pmu()
        assert (pmu["MAC_ACTIVE"], pmu["MAC_DPU_ACTIVE"]) == (row["MAC_ACTIVE"], row["MAC_DPU_ACTIVE"])
        assert pmu["MAC_ACTIVE"] + pmu["MAC_STALLED_BY_WD"] + pmu["MAC_STALLED_BY_IB"] <= pmu["NPU_ACTIVE"]
        off.append(pmu["AXI0_RD_TRANS_ACCEPTED"] - row["AXI0_RD_TRANSACTIONS"])
    assert min(off) >= -2
    assert max(off) <= 5
    assert abs(sum(off) / len(off)) < 1


Difference = tuple[int, int, int]
"""Input channels, and two numbers of output channels that are at least 128 apart."""


def differences() -> list[Difference]:
    """All pairs of rows that the issue of cycles is asked of."""
    outputs = sorted({row["out_channels"] for row in rows()})
    inputs = sorted({row["in_channels"] for row in rows()})
    return [(i, a, b) for i in inputs for a, b in combinations(outputs, 2) if b - a >= 8 * 16]


@cache
def counted(inputs: int, outputs: int) -> int:
    """CCNTR of a run."""
    return next(row["CCNTR"] for row in rows() if (row["in_channels"], row["out_channels"]) == (inputs, outputs))


@cache
def cycles(inputs: int, outputs: int, *, decodes_streams: bool) -> int:
    """Our cycles of a run: a word takes 12 cycles where the weights are copied from (10 with 8 weights a cycle), 3/2 in the arena."""
    arena, home = (
        Memory(name, 0, 0, cycles_per_word=pace, shared=False) for name, pace in (("arena", Fraction(3, 2)), ("home", Fraction(12)))
    )
    if not decodes_streams:
        home = replace(home, cycles_per_word=Fraction(10))
    system = MemorySystem("silicon", 1, (arena, home), (1, 0, 0, 0, 0, 0, 0, 0), 1)
    return quick_replay(program(inputs, outputs), system, replace(DEFAULT_TIMING, decodes_streams=decodes_streams)).cycles


def errors(least: int, *, decodes_streams: bool = True) -> list[float]:
    """Errors of the differences of rows with so many input channels or more."""
    ours = partial(cycles, decodes_streams=decodes_streams)
    return [(ours(i, b) - ours(i, a)) / (counted(i, b) - counted(i, a)) - 1 for i, a, b in differences() if i >= least]


def test_differences_of_whole_cycles_are_met_to_3_percent_from_240_input_channels_on() -> None:
    """910 of 1,547 differences, two memories chosen for them and stated: mean 0.8 %, worst 2.1 %."""
    found = errors(240)
    assert len(found) == 910
    assert max(map(abs, found)) < 0.03
    assert sum(map(abs, found)) / len(found) < 0.0085


def test_below_240_input_channels_no_straight_line_meets_3_percent_either_but_at_80() -> None:
    """The counts jitter: of a line with any slope, the worst error is at least (max - min) / (max + min) of the slopes seen."""
    floors = {}
    for inputs in sorted({i for i, _, _ in differences()}):
        slopes = [Fraction(counted(i, b) - counted(i, a), b - a) for i, a, b in differences() if i == inputs]
        floors[inputs] = (max(slopes) - min(slopes)) / (max(slopes) + min(slopes))
    assert {inputs for inputs, floor in floors.items() if floor > 0.03} == {16, 48, 112, 144, 176, 208}
    assert max(floors.values()) > 0.1
    # The bytes of these three runs grow evenly, their cycles do not.
    assert [counted(48, b) - counted(48, a) for a, b in ((16, 48), (48, 80))] == [433, 1219]
    sizes = [len(program(48, b).regions[0].content) for b in (16, 48, 80)]
    assert [b - a for a, b in pairwise(sizes)] == [576, 576]


def test_all_differences_are_met_to_2_percent_on_average_and_better_with_8_weights_a_cycle() -> None:
    """1.7 and 1.2 %: silicon does not side with twelve weights a turn, which its memories, free as they are, cannot exclude."""
    limits = 0.012, 0.015, 0.02
    means = [sum(map(abs, found)) / len(found) for found in (errors(0), errors(0, decodes_streams=False))]
    assert means[1] < limits[0]
    assert limits[1] < means[0] < limits[2]


def test_every_event_of_the_replay_is_defined_on_the_page_of_the_pmu() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pmu.md").read_text(encoding="utf-8")
    run = replay(program(16, 16), one_port())
    for event in run.pmu():
        assert page.count(f"| `{event}` |") == 1, event
