from __future__ import annotations

import math
import random
from itertools import count

import numpy as np
import pytest
from allocation_judge import Fault, validate
from exact_allocation import exact_allocation
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import extent
from reference_data import shared_data

from cascader.allocate import Extent, allocate, live_bytes
from cascader.allocate.extents import fixed
from npu_model.tflite.model import read_tflite

pytestmark = pytest.mark.law

A, B = fixed("a", 32, 0, 4), fixed("b", 16, 0, 2)
C, D = fixed("c", 16, 3, 10), fixed("d", 32, 4, 10)
FOUR = (A, B, C, D)

BYTES = {"INT8": 1, "UINT8": 1, "BOOL": 1, "INT16": 2, "INT32": 4, "FLOAT32": 4}


@st.composite
def fixed_buffers(draw: st.DrawFn, most: int) -> tuple[Extent, ...]:
    found = []
    for index in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, 6))
        size, length = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        found.append(fixed(f"b{index}", size, start, start + length))
    return tuple(found)


def fits(buffers: tuple[Extent, ...], placed: list[int], capacity: int, alignment: int) -> bool:
    """Whether the buffers after the placed ones can be given addresses below ``capacity``: every address is tried."""
    if len(placed) == len(buffers):
        return True
    new = buffers[len(placed)]
    size = int(new.high[0])
    for address in range(0, capacity - size + 1, alignment):
        free = all(
            new.end <= old.start or old.end <= new.start or address + size <= at or at + int(old.high[0]) <= address
            for old, at in zip(buffers, placed, strict=False)
        )
        if free and fits(buffers, [*placed, address], capacity, alignment):
            return True
    return False


def optimum(buffers: tuple[Extent, ...], alignment: int) -> int:
    """The least peak, by trying all addresses under one capacity after the other."""
    return next(capacity for capacity in count() if fits(buffers, [], capacity, alignment))


def least_live(buffers: tuple[Extent, ...]) -> int:
    """Bytes that no allocation can do without."""
    return int(live_bytes(buffers, max(buffer.end for buffer in buffers)).max())


def network_buffers(name: str) -> tuple[Extent, ...]:
    """The variable tensors of a network, its operators run in file order, one operator a step."""
    model = read_tflite((shared_data() / "models" / name).read_bytes())
    first, last = dict.fromkeys(model.inputs, 0), {}
    for step, op in enumerate(model.operators):
        for index in op.inputs + op.outputs:
            if index >= 0 and not model.tensors[index].data:
                first.setdefault(index, step)
                last[index] = step
    last |= dict.fromkeys(model.outputs, len(model.operators) - 1)
    sizes = {index: math.prod(model.tensors[index].shape) * BYTES[model.tensors[index].dtype] for index in first}
    return tuple(fixed(model.tensors[i].name, -(-sizes[i] // 16) * 16, first[i], last.get(i, first[i]) + 1) for i in sorted(first))


def cut_rectangle(pieces: int, seed: int) -> tuple[Extent, ...]:
    """A rectangle of 64 KiB and 400 steps cut into ``pieces`` buffers: they fit together without a gap."""
    rng = random.Random(seed)
    boxes = [(0, 4096, 0, 400)]
    while len(boxes) < pieces:
        low, high, start, end = boxes.pop(rng.randrange(len(boxes)))
        if rng.random() < 0.5 and high - low > 1:
            cut = rng.randrange(low + 1, high)
            boxes += [(low, cut, start, end), (cut, high, start, end)]
        elif end - start > 1:
            cut = rng.randrange(start + 1, end)
            boxes += [(low, high, start, cut), (low, high, cut, end)]
        else:
            boxes.append((low, high, start, end))
    rng.shuffle(boxes)
    return tuple(fixed(str(i), 16 * (high - low), start, end) for i, (low, high, start, end) in enumerate(boxes))


def test_four_buffers_reach_the_bytes_that_are_live() -> None:
    peak, addresses = allocate(FOUR)
    assert peak == least_live(FOUR) == 48
    assert exact_allocation(FOUR) == (48, (0, 32, 32, 0))
    assert validate(FOUR, addresses, peak, 16) is None


def test_buffers_that_never_meet_share_their_bytes() -> None:
    assert allocate((B, D)) == (32, (0, 0))


def test_a_buffer_that_dies_when_another_is_born_makes_room_for_it() -> None:
    assert allocate((A, fixed("d", 32, A.end, 10)))[0] == 32


def test_no_buffers_need_no_bytes() -> None:
    assert allocate(()) == exact_allocation(()) == (0, ())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(buffers=fixed_buffers(most=5), alignment=st.sampled_from([1, 2, 4]))
def test_the_exact_search_reaches_the_optimum_of_brute_force_and_so_does_the_allocator(buffers: tuple[Extent, ...], alignment: int) -> None:
    peak, addresses = exact_allocation(buffers, alignment=alignment)
    assert validate(buffers, addresses, peak, alignment) is None
    assert peak == optimum(buffers, alignment)
    assert allocate(buffers, alignment=alignment)[0] == -(-peak // alignment) * alignment


@pytest.mark.parametrize("pieces", [8, 12, 30])
@pytest.mark.parametrize("seed", range(4))
def test_a_rectangle_cut_in_pieces_is_put_together_again(pieces: int, seed: int) -> None:
    assert allocate(cut_rectangle(pieces, seed))[0] == 65536


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_and_fifty_pieces_come_within_seven_percent(seed: int) -> None:
    buffers = cut_rectangle(150, seed)
    peak, addresses = allocate(buffers)
    assert validate(buffers, addresses, peak, 16) is None
    assert peak <= 1.07 * 65536


def test_the_tensors_of_every_reference_network_reach_the_bytes_that_are_live() -> None:
    names = sorted(path.name for path in (shared_data() / "models").glob("*.tflite"))
    assert len(names) >= 10
    for name in names:
        buffers = network_buffers(name)
        peak, addresses = allocate(buffers)
        assert validate(buffers, addresses, peak, 16) is None, name
        assert peak == least_live(buffers), name


def test_moves_from_one_order_to_the_next_are_worth_having() -> None:
    def total(moves: int) -> int:
        return sum(allocate(cut_rectangle(40, seed), moves=moves)[0] for seed in range(6))

    assert total(0) > total(100) >= total(2000)


def test_the_same_buffers_get_the_same_addresses() -> None:
    assert allocate(cut_rectangle(80, 2)) == allocate(cut_rectangle(80, 2))


GROWING = extent(4, (0, 16), (0, 48), name="g")


@pytest.mark.parametrize(
    ("buffers", "addresses", "peak", "fault"),
    [
        (FOUR, (0, 32, 32, 0), 48, None),
        (FOUR, (0, 32, 32), 48, Fault("bad count")),
        (FOUR, (-16, 32, 32, 0), 48, Fault("bad address", ("a",))),
        (FOUR, (0, 40, 32, 0), 56, Fault("bad alignment", ("b",))),
        (FOUR, (0, 16, 32, 0), 48, Fault("bad overlap", ("a", "b"))),
        (FOUR, (0, 32, 32, 16), 48, Fault("bad overlap", ("c", "d"))),
        (FOUR, (0, 32, 32, 0), 47, Fault("bad peak", ("b",))),
        ((GROWING, fixed("h", 16, 4, 5)), (0, 16), 48, None),
        ((GROWING, fixed("h", 16, 4, 6)), (0, 16), 48, Fault("bad overlap", ("g", "h"))),
        ((GROWING, Extent("h", 4, np.array([0, 32]), np.array([0, 64]))), (0, 16), 80, None),
    ],
)
def test_the_validator_names_the_fault(buffers: tuple[Extent, ...], addresses: tuple[int, ...], peak: int, fault: Fault | None) -> None:
    assert validate(buffers, addresses, peak, 16) == fault
