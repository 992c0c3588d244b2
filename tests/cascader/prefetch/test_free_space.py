"""Room: the places of copies in what tensors leave free, against sets of units per job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import extent, extents
from msgspec import Struct

from cascader.allocate.extents import Extent
from cascader.prefetch.free_space import EXACT, UNITS, Gap, Room

pytestmark = pytest.mark.law

STEPS = 6


class Request(Struct, frozen=True):
    """A copy of ``size`` bytes for jobs ``first`` to ``last``, wished for from job ``wish`` on."""

    size: int
    first: int
    last: int
    wish: int


@dataclass
class NaiveRoom:
    """For every job the set of units that hold a byte of a tensor, and for every unit the last job of the copies in it."""

    unit: int
    size: int
    taken: list[set[int]]
    held: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Sequence[Extent], addresses: Sequence[int], size: int, unit: int) -> NaiveRoom:
        """Look at every byte that is live."""
        taken: list[set[int]] = [set() for _ in range(STEPS)]
        for one, address in zip(found, addresses, strict=True):
            for step in range(one.start, one.end):
                taken[step] |= {(address + byte) // unit for byte in range(one.low[step - one.start], one.high[step - one.start])}
        return cls(unit, size, taken)

    def free_from(self, place: int, size: int, last: int) -> int:
        """The first job from which on all units of a place are free up to job ``last``; last + 1 if it is taken then."""
        mine = range(place, place + -(-size // self.unit))
        job = last + 1
        while job > 0 and self.taken[job - 1].isdisjoint(mine) and all(self.held.get(unit, -1) < job - 1 for unit in mine):
            job -= 1
        return job

    def gap(self, wanted: Request) -> Gap | None:
        """The place that was taken last of those free at the wish, else the one free soonest; the lowest of several."""
        places = range(self.size // self.unit - -(-wanted.size // self.unit) + 1)
        found = [(self.free_from(place, wanted.size, wanted.last), place) for place in places]
        in_time = [(-job, place) for job, place in found if job <= wanted.wish]
        if not found or min(found)[0] > wanted.first:
            return None
        job, place = min(in_time) if in_time else min(found)
        return Gap(place * self.unit, abs(job))

    def put(self, gap: Gap, wanted: Request) -> None:
        """Hold the copy's units up to its last job."""
        for unit in {byte // self.unit for byte in range(gap.address, gap.address + wanted.size)}:
            self.held[unit] = max(wanted.last, self.held.get(unit, -1))


def requests(size: int) -> st.SearchStrategy[list[Request]]:
    """Up to six copies in the order of first use."""

    def one(jobs: tuple[int, int], size: int, wish: int) -> Request:
        return Request(size, min(jobs), max(jobs), min(wish, *jobs))

    job = st.integers(0, STEPS - 1)
    found = st.lists(st.builds(one, st.tuples(job, job), st.integers(1, size), job), min_size=1, max_size=6)
    return found.map(lambda some: sorted(some, key=lambda wanted: wanted.first))


def assert_the_same_places(room: Room, naive: NaiveRoom, wanted: Sequence[Request]) -> None:
    copies = room.copies()
    for request in wanted:
        gaps = copies.gaps(request.size, request.first, request.last)
        gap = None if gaps is None else gaps.at(request.wish)
        assert gap == naive.gap(request)
        if gap is not None:
            assert gap.address + request.size <= naive.size
            copies.put(gap, request.size, request.last)
            naive.put(gap, request)


@settings(max_examples=300)
@given(
    extents(count=4, size=60, steps=STEPS, least=0, within=STEPS),
    st.lists(st.integers(0, 80), min_size=4, max_size=4),
    st.integers(1, 150),
    st.sampled_from([1, 4, 16]),
    requests(60),
)
def test_places_are_those_that_sets_of_units_leave_free(
    found: list[Extent], addresses: list[int], size: int, alignment: int, wanted: list[Request]
) -> None:
    room = Room(found, addresses[: len(found)], STEPS, size, alignment)
    assert room.unit == alignment
    assert_the_same_places(room, naive(found, addresses, size, room), wanted)


def naive(found: list[Extent], addresses: list[int], size: int, room: Room) -> NaiveRoom:
    return NaiveRoom.of(found, addresses[: len(found)], size, room.unit)


@settings(max_examples=10)
@given(
    extents(count=3, size=9000, steps=STEPS, within=STEPS),
    st.lists(st.integers(0, EXACT), min_size=3, max_size=3),
    st.integers(EXACT + 1, EXACT + 32_768),
    requests(3000),
)
def test_a_large_arena_is_looked_at_in_larger_units_and_the_same_holds(
    found: list[Extent], addresses: list[int], size: int, wanted: list[Request]
) -> None:
    room = Room(found, addresses[: len(found)], STEPS, size)
    assert room.unit > 16
    assert room.unit % 16 == 0
    assert room.units <= UNITS
    assert_the_same_places(room, naive(found, addresses, size, room), wanted)


def test_a_unit_with_one_live_byte_is_taken_as_a_whole() -> None:
    """48 bytes in units of 16; byte 16 is live: the places 0 and 32 are left."""
    room = Room([extent(0, (16, 17))], [0], 1, 48)
    copies = room.copies()
    assert copies.gaps(17, 0, 0) is None
    for address in (0, 32):
        gaps = copies.gaps(16, 0, 0)
        assert gaps is not None
        assert gaps.at(0) == Gap(address, 0)
        copies.put(gaps.at(0), 16, 0)
    assert copies.gaps(1, 0, 0) is None


def test_a_copy_goes_where_a_tensor_was_last_so_that_what_is_free_for_longer_stays_free() -> None:
    """The second of two places was taken up to job 1: a copy that is wanted from job 2 on gets it, one wanted from job 1 on does not."""
    room = Room([extent(0, (16, 32), (16, 32), (0, 0))], [0], 3, 32)
    gaps = room.copies().gaps(16, 2, 2)
    assert gaps is not None
    assert (gaps.at(2), gaps.at(1)) == (Gap(16, 2), Gap(0, 0))


def test_the_last_bytes_that_fill_no_unit_are_not_used() -> None:
    assert Room([], [], 1, 47).copies().gaps(33, 0, 0) is None
