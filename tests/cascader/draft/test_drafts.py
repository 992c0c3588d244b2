"""Drafts: schedules in an arena of a given size, held to bytes, to the jobs that they run and to every draft of small graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_extents import is_valid
from msgspec.structs import replace
from prefetching import prefetch
from row_graphs import row_graphs, scaled, schedule_groups
from toy_costs import ToyCosts

from cascader.allocate.extents import Extent
from cascader.draft.draft import COPY, JOB, Draft, lines
from cascader.draft.drafter import Drafter, DraftOptions
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from cascader.plan.plans import Planner, PlanOptions
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants

pytestmark = pytest.mark.law

EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"
COST = ToyCosts()
ROWS = (1, 2)
PLANS = PlanOptions(stripe_rows=ROWS, staging=(0, 16, 48, 1 << 30))
OPTIONS = DraftOptions(moves=40, stripe_rows=ROWS)
HEURISTIC = replace(OPTIONS, every=0)


def graphs(max_parts: int) -> st.SearchStrategy[RowGraph]:
    """Rows of 16 to 48 bytes, so that no byte is lost to alignment."""

    def widened(graph: RowGraph) -> RowGraph:
        return scaled(graph, 16)

    return row_graphs(max_parts, max_rows=4).map(widened)


def drafter(graph: RowGraph, options: DraftOptions = OPTIONS) -> Drafter:
    scheduler = DepthFirstScheduler(graph)
    return Drafter(scheduler, COST, Planner(scheduler, COST, PLANS).table, PLANS, options)


def budget_of(graph: RowGraph, share: int) -> int:
    """From the smallest arena that is found (0) to one with room for everything (100)."""
    least = drafter(graph).smallest.memory
    most = sum(tensor.size for tensor in graph.tensors) + sum(COST.constant_bytes(part) for part in range(len(graph.parts)))
    return least + max(0, most - least) * share // 100


def assert_fits(made: Drafter, draft: Draft, budget: int) -> None:
    """Byte by byte and job by job: tensors and copies never share a byte, and none lies outside the arena."""
    jobs, stores = made.placement.stored(draft.part_groups)
    addresses = made.placement.addresses(draft)
    tensors, copies = list(stores.extents), lines(draft.copies, COPY).tolist()
    assert is_valid(tensors, addresses)
    ends = [address + int(tensor.high.max()) for tensor, address in zip(tensors, addresses, strict=True)]
    ends += [address + COST.constant_bytes(part) for _, address, part, _ in copies]
    assert max(ends) <= draft.memory <= budget
    last = {part: step for step, (part, *_) in enumerate(jobs.tolist())}
    for step in range(len(jobs)):
        taken: set[int] = set()
        for tensor, address in zip(tensors, addresses, strict=True):
            if tensor.start <= step < tensor.end:
                taken |= {address + byte for byte in range(tensor.low[step - tensor.start], tensor.high[step - tensor.start])}
        for issued, address, part, _ in copies:
            if issued <= step <= last[part]:
                mine = set(range(address, address + COST.constant_bytes(part)))
                assert not mine & taken
                taken |= mine


@settings(max_examples=40)
@given(graphs(6), st.integers(0, 100), st.sampled_from([OPTIONS, HEURISTIC, replace(HEURISTIC, prefetch=False)]))
def test_drafts_fit_their_budget_byte_by_byte_and_the_fastest_comes_first(graph: RowGraph, share: int, options: DraftOptions) -> None:
    budget = budget_of(graph, share)
    made = drafter(graph, options)
    found = made.drafts(budget)
    assert found
    assert [draft.cycles for draft in found] == sorted(draft.cycles for draft in found)
    for draft in found:
        assert_fits(made, draft, budget)
        expected = schedule_groups(DepthFirstScheduler(graph), draft.part_groups)
        jobs = lines(draft.jobs, JOB)[:, :3].tolist()
        assert [(part, start, end) if end >= 0 else (part, 0, graph.parts[part].rows) for part, start, end in jobs] == list(expected)
        if not options.prefetch:
            parts = [job.part for job in expected]
            assert all(step == parts.index(part) for step, _, part, _ in lines(draft.copies, COPY).tolist())


@given(graph=graphs(6), share=st.integers(0, 100))
@settings(max_examples=60)
def test_the_network_layer_by_layer_is_a_draft_wherever_it_fits(graph: RowGraph, share: int) -> None:
    """No order that another compiler has may be missed, whatever is expected of it."""
    budget = budget_of(graph, share)
    plain = tuple(Group(number, number, part.rows) for number, part in enumerate(graph.parts))
    drafts = drafter(graph, HEURISTIC).drafts(budget)
    most = sum(tensor.size for tensor in graph.tensors)
    assert plain in [draft.part_groups for draft in drafts] or budget < most


@settings(max_examples=30)
@given(graphs(6), st.integers(0, 100), st.integers(0, 100), st.booleans())
def test_drafts_do_not_depend_on_what_was_asked_before(graph: RowGraph, share: int, other: int, every: bool) -> None:  # noqa: FBT001  # drawn
    options = OPTIONS if every else HEURISTIC
    asked, fresh = drafter(graph, options), drafter(graph, options)
    _ = asked.smallest
    asked.drafts(budget_of(graph, other))
    assert asked.drafts(budget_of(graph, share)) == fresh.drafts(budget_of(graph, share))


@settings(max_examples=30)
@given(graphs(6))
def test_the_smallest_arena_is_one_that_drafts_are_found_for(graph: RowGraph) -> None:
    made = drafter(graph, HEURISTIC)
    assert_fits(made, made.smallest, made.smallest.memory)
    assert drafter(graph, HEURISTIC).drafts(made.smallest.memory)


# Every draft of a small graph, by code of its own but for the timeline.


def divisions(graph: RowGraph) -> Iterator[tuple[Group, ...]]:
    """All cuts between parts, times all numbers of rows."""
    count = len(graph.parts)
    for cuts in product((False, True), repeat=count - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), count]
        spans = [(first, end - 1) for first, end in pairwise(bounds)]
        if all(graph.parts[first].segment == graph.parts[last].segment for first, last in spans):
            yield from product(*(groups_of(graph, first, last) for first, last in spans))


def groups_of(graph: RowGraph, first: int, last: int) -> list[Group]:
    """All numbers of rows for the last part, and one row at a time for the others where it makes the fewest."""
    rows = rows_of(graph, first, last)
    return [Group(first, last, count) for count in rows] + [Group(first, last, rows[0], 1)] * (first < last)


def rows_of(graph: RowGraph, first: int, last: int) -> list[int]:
    part = graph.parts[last]
    if first == last:
        return [part.rows]
    return list(ROWS) if part.atomic else sorted({min(rows, part.rows) for rows in (*ROWS, part.rows)})


def clashes(one: Extent, other: Extent, limit: int) -> set[int]:
    """Distances from the first buffer to the second, multiples of 16 bytes, at which they share a byte at some step."""
    return {
        distance
        for distance in range(-limit // 16 * 16, limit + 1, 16)
        if any(
            max(one.low[s - one.start], distance + other.low[s - other.start])
            < min(one.high[s - one.start], distance + other.high[s - other.start])
            for s in range(max(one.start, other.start), min(one.end, other.end))
            if one.high[s - one.start] > one.low[s - one.start] and other.high[s - other.start] > other.low[s - other.start]
        )
    }


def placements(extents: Sequence[Extent], budget: int) -> set[tuple[int, ...]]:
    """Placements by every order of the buffers, in which each goes to the lowest address that is free for it."""
    bad = {(i, j): clashes(extents[i], extents[j], budget) for i, j in permutations(range(len(extents)), 2)}
    tops = [int(extent.high.max()) for extent in extents]
    found: set[tuple[int, ...]] = set()

    def place(placed: dict[int, int]) -> None:
        if len(placed) == len(extents):
            found.add(tuple(placed[i] for i in range(len(extents))))
        for i in set(range(len(extents))) - set(placed):
            free = (a for a in range(0, budget - tops[i] + 1, 16) if all(a - b not in bad[j, i] for j, b in placed.items()))
            address = next(free, None)
            if address is not None:
                place({**placed, i: address})

    place({})
    return found


def constants_of(graph: RowGraph, jobs: Sequence[StripeJob]) -> list[Constants]:
    found = []
    for part, facts in enumerate(graph.parts):
        steps = [step for step, job in enumerate(jobs) if job.part == part]
        if steps and COST.constant_bytes(part):
            earliest = min(step for step, job in enumerate(jobs) if graph.parts[job.part].segment == facts.segment)
            found.append(Constants(part, COST.constant_bytes(part), COST.transfer_cycles(part), steps[0], steps[-1], earliest))
    return found


def best_of_all(graph: RowGraph, budget: int) -> int | None:
    """Fewest cycles of all divisions, placements and sets of staged parts; None if nothing fits."""
    scheduler, best = DepthFirstScheduler(graph), None
    for groups in divisions(graph):
        jobs = schedule_groups(scheduler, groups)
        times = [COST.times(job.part, job.start, job.end) for job in jobs]
        extents = [store.extent for store in storages(DepthFirstScheduler(graph), jobs, groups)]
        constants = constants_of(graph, jobs)
        sets = [some for count in range(len(constants) + 1) for some in combinations(constants, count)]
        for addresses in placements(extents, budget):
            room = Room(extents, addresses, len(jobs), budget)
            cycles = min(prefetch(times, some, room).cycles for some in sets)
            best = cycles if best is None else min(best, cycles)
    return best


def ratios(options: DraftOptions, parts: int, examples: int) -> list[Fraction]:
    """Cycles of the search over the fewest of all drafts, for generated graphs with few buffers and budgets."""
    found: list[Fraction] = []

    @settings(max_examples=examples)
    @given(graphs(parts), st.integers(0, 100))
    def compare(graph: RowGraph, share: int) -> None:
        if len(graph.tensors) <= 6:
            budget = budget_of(graph, share)
            best = best_of_all(graph, budget)
            assert best is not None
            found.append(Fraction(drafter(graph, options).drafts(budget)[0].cycles, best))

    compare()
    return found


SOME = "takes some minutes: set NPU_TESTBED_ALL=1 to run it"


@pytest.mark.parametrize(
    ("parts", "examples"),
    [(4, 40), pytest.param(5, 100, marks=pytest.mark.skipif(not EVERY, reason=SOME))],
)
def test_nothing_of_all_drafts_of_a_small_graph_is_faster_than_what_the_search_finds(parts: int, examples: int) -> None:
    found = ratios(OPTIONS, parts, examples)
    assert len(found) >= examples * 0.8
    assert max(found) <= 1


@pytest.mark.parametrize(
    ("parts", "examples"),
    [(4, 30), pytest.param(5, 100, marks=pytest.mark.skipif(not EVERY, reason=SOME))],
)
def test_the_steps_that_large_graphs_are_searched_by_find_the_best_of_small_ones_mostly(parts: int, examples: int) -> None:
    """Measured: 29 of 30, and 95 of 97, of which one is 3 % slower."""
    found = ratios(HEURISTIC, parts, examples)
    assert sum(ratio <= 1 for ratio in found) >= len(found) * 0.95
    assert max(found) <= Fraction(7, 5)


@settings(max_examples=40)
@given(graphs(7), st.integers(0, 100), st.lists(st.fractions(0, 1), min_size=1, max_size=4))
def test_a_promise_is_the_same_whatever_was_asked_before(graph: RowGraph, share: int, parts: list[Fraction]) -> None:
    """The clock decides in which process a form is asked first; an answer must not depend on it."""
    budget, asked = budget_of(graph, share), drafter(graph, HEURISTIC)
    promised = [asked.promise(budget, part) for part in parts]
    assert promised == [drafter(graph, HEURISTIC).promise(budget, part) for part in parts]


@settings(max_examples=60)
@given(graphs(7), st.integers(0, 100))
def test_trials_that_were_beaten_are_left_and_nothing_else_is(graph: RowGraph, share: int) -> None:
    budget, part = budget_of(graph, share), Fraction(1)
    found, whole = drafter(graph, HEURISTIC), drafter(graph, HEURISTIC)
    trials = whole.trials
    with patch.object(trials, "faster", lambda groups, staged, budget, below: trials.trial(groups, [staged], budget, below)):
        assert found.promise(budget, part) == whole.promise(budget, part)
        assert found.drafts(budget) == whole.drafts(budget)
