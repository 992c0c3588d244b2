"""The example of a convolution in tiles, bands and a ring: the same result, bit by bit, and the traffic and cycles that it says."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from examples.tiled_convolution import (
    CHANNELS,
    HALO,
    IMAGE,
    RESULT,
    SHIFT,
    SRAM,
    WAYS,
    Chip,
    binding,
    external_bytes,
    main,
    memory_system,
    ring_map,
    row_bytes,
    weights,
)
from examples.tiled_timeline import Spans, picture
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.program import DmaWait, KernelOperation, KernelWait, Program
from sim import Replay, footprint, replay
from sim.fast import quick_replay
from sim.functional.execute import execute
from sim.functional.memory import RegionBytes

pytestmark = pytest.mark.law

SIDE, COUNT, ROWS = 48, 2, 4
SERIAL, TILES, BANDS, RING = range(len(WAYS))


@cache
def built(way: int, side: int = SIDE, rows: int = ROWS) -> Program:
    return WAYS[way].build(Chip.of(DEFAULT_ACCELERATOR), side, COUNT, rows)


@cache
def replayed(way: int) -> Replay:
    return replay(built(way), memory_system())


def image(side: int) -> npt.NDArray[np.int8]:
    return np.random.default_rng(7).integers(-128, 128, (1, side + HALO, side + HALO, CHANNELS)).astype(np.int8)


def computed(program: Program, side: int) -> npt.NDArray[np.int8]:
    """Result of the program for the image, in memories in which every byte that is read must have been written."""
    memory = RegionBytes(program)
    memory.place(binding("image", IMAGE, side + HALO), image(side))
    execute(program, memory)
    return np.asarray(memory.fetch(binding("result", RESULT, side)))


def convolved(side: int) -> npt.NDArray[np.int8]:
    """The convolution by numpy: sums of products, rounded to the nearest multiple of 2 ** SHIFT, clamped."""
    source, filters = image(side)[0].astype(np.int64), weights().astype(np.int64)
    sums = np.zeros((side, side, CHANNELS), np.int64)
    for y in range(filters.shape[1]):
        for x in range(filters.shape[2]):
            sums += source[y : y + side, x : x + side] @ filters[:, y, x].T
    return np.clip((sums + (1 << SHIFT - 1)) >> SHIFT, -128, 127).astype(np.int8)[np.newaxis]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_every_way_computes_the_convolution(way: int) -> None:
    assert np.array_equal(computed(built(way), SIDE), convolved(SIDE))


@pytest.mark.parametrize("rows", [1, 2, 3, 6, 24, 48])
def test_a_ring_of_any_band_computes_the_convolution(rows: int) -> None:
    assert np.array_equal(computed(built(RING, SIDE, rows), SIDE), convolved(SIDE))


def test_results_use_the_whole_range_of_8_bits() -> None:
    assert {convolved(SIDE).min(), convolved(SIDE).max()} == {-128, 127}
    assert len(np.unique(convolved(SIDE))) == 256


def test_the_ring_loads_every_byte_once_and_the_others_load_the_halo_again() -> None:
    whole = (SIDE + HALO) * row_bytes(SIDE + HALO)
    tile = (SIDE // COUNT + HALO) * row_bytes(SIDE // COUNT + HALO)
    loaded = [external_bytes(built(way))[0] for way in (SERIAL, TILES, BANDS, RING)]
    assert loaded == [COUNT**2 * tile, COUNT**2 * tile, SIDE // ROWS * (ROWS + HALO) * row_bytes(SIDE + HALO), whole]
    assert {external_bytes(built(way))[1] for way in range(len(WAYS))} == {SIDE * row_bytes(SIDE)}


def test_a_tile_takes_a_transfer_for_every_row_and_a_band_takes_one() -> None:
    own = SIDE // COUNT
    transfers = [len(built(way).transfers) - 1 for way in range(len(WAYS))]
    assert transfers[SERIAL] == transfers[TILES] == COUNT**2 * (2 * own + HALO)
    assert transfers[BANDS] == 2 * SIDE // ROWS
    assert transfers[BANDS] < transfers[RING] < 2 * transfers[BANDS]


def test_sram_is_what_the_buffers_take() -> None:
    constants = Chip.of(DEFAULT_ACCELERATOR).start
    own = SIDE // COUNT
    tile = (own + HALO) * row_bytes(own + HALO) + own * row_bytes(own)
    wide, narrow = row_bytes(SIDE + HALO), row_bytes(SIDE)
    peaks = [footprint((built(way),), (), ()).peak - constants for way in range(len(WAYS))]
    assert peaks == [tile, 2 * tile, 2 * (ROWS + HALO) * wide + 2 * ROWS * narrow, (2 * ROWS + HALO) * wide + 2 * ROWS * narrow]


def test_overlapping_saves_cycles_and_beats_are_the_bytes() -> None:
    cycles = [replayed(way).cycles for way in range(len(WAYS))]
    assert cycles[TILES] < cycles[SERIAL]
    assert cycles[RING] < cycles[BANDS]
    for way in range(len(WAYS)):
        staged = built(way).transfers[0].length
        commands = -(-sum(built(way).words) * 4 // 8)
        loaded, stored = external_bytes(built(way))
        assert replayed(way).beats.axi1_read - commands == (loaded + staged) // 8
        assert replayed(way).beats.axi1_write == stored // 8


def test_the_fast_recurrence_says_the_same_cycles() -> None:
    for way in range(len(WAYS)):
        assert quick_replay(built(way), memory_system()).cycles == replayed(way).cycles


def timeline(way: int) -> Spans:
    spans = Spans(WAYS[way].title)
    replay(built(way), memory_system(), (spans,))
    return spans


def test_serial_steps_never_run_together_and_overlapped_ones_do() -> None:
    one_by_one = timeline(SERIAL).spans
    order = [one_by_one[kind, number] for number in range(COUNT**2) for kind in ("load", "convolve", "store")]
    assert all(end <= start for (_, end), (start, _) in pairwise(order))
    together = timeline(TILES).spans
    for number in range(COUNT**2 - 1):
        assert together["load", number + 1][0] < together["convolve", number][1]
    for number in range(COUNT**2):
        assert together["load", number][1] <= together["convolve", number][0]
        assert together["convolve", number][1] <= together["store", number][0]


def test_waits_keep_buffers_apart_whatever_the_memories_speed() -> None:
    """No transfer overwrites what a kernel under way still reads: kernels run until a wait says they are done."""
    for way in range(len(WAYS)):
        running: list[KernelOperation] = []
        copying: list[object] = []
        for operation in built(way).operations:
            if isinstance(operation, KernelWait):
                running = running[len(running) - operation.outstanding :] if operation.outstanding else []
            elif isinstance(operation, DmaWait):
                copying = []
            elif isinstance(operation, KernelOperation):
                own = [r for r in operation.reads() + operation.writes() if r.region == SRAM]
                assert not any(a.overlaps(b) for transfer in copying for a in (*transfer.reads(), *transfer.writes()) for b in own)  # type: ignore[attr-defined]
                running.append(operation)
            elif hasattr(operation, "source"):
                for kernel in running:
                    assert not any(a.overlaps(b) for a in operation.writes() for b in kernel.reads() + kernel.writes())
                    assert not any(a.overlaps(b) for a in operation.reads() for b in kernel.writes())
                copying.append(operation)


def test_a_ring_wraps_by_the_lower_tile() -> None:
    made = ring_map(64, 10, 8, first=8, height=6)
    assert [made.address(y, 0, 0) for y in range(6)] == [64 + slot * row_bytes(8) for slot in (8, 9, 0, 1, 2, 3)]


def test_the_picture_has_a_bar_for_every_step() -> None:
    timelines = [timeline(SERIAL), timeline(RING)]
    root = ET.fromstring(picture(timelines))
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if list(bar)]
    jobs = SIDE // ROWS
    assert len(bars) >= 3 * (COUNT**2 + jobs)


def test_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "timeline.svg"
    main(["--side", "16", "--rows", "4", "--plot", str(plot)])
    printed = capsys.readouterr().out
    assert [line.split("  ")[0] for line in printed.splitlines()[2:]] == [way.title for way in WAYS]
    assert plot.read_text(encoding="utf-8").startswith("<svg")
    main(["--side", "16", "--rows", "4", "--ways", "4"])
    assert capsys.readouterr().out.splitlines()[2:] == printed.splitlines()[-1:]
    with pytest.raises(InputError, match="--side 16 is not a multiple of --rows 5: choose a divisor"):
        main(["--side", "16", "--rows", "5"])
