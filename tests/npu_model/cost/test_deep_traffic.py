"""Traffic of the Ethos-U85: the rules give every published beat counter, and what they say of no point is told."""

from __future__ import annotations

import csv
from collections import deque
from pathlib import Path

import pytest
from reference_data import shared_data
from vela_u85 import compiled

from npu_model.accelerator import accelerator
from npu_model.compiled.network import read_compiled
from npu_model.cost.deep_traffic import KEPT_BLOCKS, deep_blocks, depth_step, unmet
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import (
    SEPARATE_BUFFERS,
    WORD_BYTES,
    Activation,
    ActivationKind,
    DataType,
    FeatureMap,
    KernelOperation,
    Layout,
    MapStorage,
    Modes,
    OperationKind,
    Program,
    Strides,
    Tiles,
)
from npu_model.shapes import Shape3D, ceil_div
from sim.replay import Beats, operation_beats

pytestmark = pytest.mark.law

APART = profile("u65_high_end").memory_system()
"""Constants, arena and commands behind AXI1 and the fast scratch behind AXI0, as in the published runs of the U85."""

INT8 = DataType(8, signed=True)
DEVICE = accelerator("ethos-u85-256")


def points() -> list[dict[str, str]]:
    folder = shared_data() / "fvp"
    rows = []
    for name in ("u85_calibration.csv", "u85_ad.csv"):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            rows += [row | {"path": str(folder / row["stream"])} for row in csv.DictReader(file)]
    return rows


def stream(path: str | Path) -> Program:
    (program,) = read_compiled(Path(path).read_bytes()).programs
    return program


def program_beats(program: Program, system: MemorySystem) -> Beats:
    """Data beats of a Program, counted without any timing. Its command stream is read once from its first word, through AXI1."""
    device = accelerator(program.accelerator)
    commands = Beats(0, 0, ceil_div(WORD_BYTES * sum(program.words), device.port_bytes_per_cycle), 0)
    return sum((operation_beats(op, device, system) for op in program.operations), commands)


def test_all_published_beat_counters_are_met() -> None:
    columns = ("sram_rd_beats", "sram_wr_beats", "ext_rd_beats", "ext_wr_beats")
    found = {row["id"]: program_beats(stream(row["path"]), APART) for row in points()}
    assert len(found) == 17
    assert found == {row["id"]: Beats(*[int(row[name]) for name in columns]) for row in points()}


def test_the_counters_of_the_board_are_met() -> None:
    path = shared_data() / "fvp" / "u85" / "kws_micronet_m.ethos-u85-1024.dram_low.vela500.tflite"
    beats = program_beats(stream(path), APART)
    # The board has all of its memories behind EXT; its PMU counted 48,898 reads and 23,851 writes.
    assert (beats.axi0_read + beats.axi1_read, beats.axi0_write + beats.axi1_write) == (48_898, 23_851)


def pointwise(channels: int, outputs: int, block: Shape3D) -> KernelOperation:
    """A 1x1 convolution of an NHCWB16 map, as large as its OFM block."""

    def brick_map(depth: int) -> FeatureMap:
        shape, bricks = Shape3D(block.height, block.width, depth), ceil_div(depth, 16)
        strides = Strides(block.width * 16 * bricks, 16, block.width * 16)
        return FeatureMap(2, shape, INT8, Layout.NHCWB16, Tiles.single(shape, 0), strides)

    return KernelOperation(
        kind=OperationKind.CONV_2D,
        ifm=brick_map(channels),
        ofm=brick_map(outputs),
        block=block,
        shram=SEPARATE_BUFFERS,
        activation=Activation(ActivationKind.NONE, -128, 127),
        modes=Modes(ublock=(1, 4)),
    )


@pytest.mark.parametrize("channels", [16, 64, 200, 256, 276, 500, 640])
@pytest.mark.parametrize("outputs", [16, 32, 48, 112])
def test_kept_blocks_are_those_of_a_queue_that_forgets_the_oldest(channels: int, outputs: int) -> None:
    op = pointwise(channels, outputs, Shape3D(4, 4, 16))
    step, held, naive = depth_step(op, DEVICE), deque[int](maxlen=KEPT_BLOCKS), []
    starts = list(range(0, channels, step))
    for number in range(ceil_div(outputs, 16)):
        beats = 0
        for start in starts if number % 2 == 0 else reversed(starts):
            if start in held:
                held.remove(start)
            else:
                beats += ceil_div(min(step, channels - start), 16) * 4 * 4
            held.append(start)
        naive.append(beats)
    assert [sum(sum(runs) for _, runs in block.fetches) for block in deep_blocks(op, DEVICE)] == naive


def test_a_buffer_that_is_too_small_keeps_fewer_blocks() -> None:
    small, large = (pointwise(256, 32, Shape3D(side, 16, 16)) for side in (4, 8))
    assert [len(block.fetches) for block in deep_blocks(small, DEVICE)] == [4, 0]
    assert [len(block.fetches) for block in deep_blocks(large, DEVICE)] == [4, 2]
    assert (unmet(small, DEVICE), unmet(large, DEVICE)) == ("", "kept IFM blocks that are larger than the input buffer")


def test_chained_maps_move_nothing_and_the_output_of_a_chain_does() -> None:
    (program,) = read_compiled(compiled("mobilenet_v3", 256)).programs
    chained = [op for op in program.kernels if op.ofm.storage is MapStorage.CHAINED]
    assert chained
    for op in chained:
        assert all(block.writes == () for block in deep_blocks(op, DEVICE))


def test_an_output_in_another_order_is_told_to_be_unmet_and_written_whole() -> None:
    (program,) = read_compiled(compiled("pytorch_nchw", 256)).programs
    moved = [op for op in program.kernels if op.stored is not op.ofm]
    assert moved
    for op in moved:
        assert unmet(op, DEVICE) == "an output that is stored in another order"
        written = sum(sum(block.writes) for block in deep_blocks(op, DEVICE))
        assert written * DEVICE.port_bytes_per_cycle >= op.ofm.shape.elements * op.ofm.dtype.bytes
