"""Plans: their memory against rows followed one by one, their switches, and the search against every schedule of its class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from naive_rows import KEPT, PRESENT, bytes_held, is_cropped, needed_rows, rows_made
from row_graphs import chain, divided_graphs, row_graphs, schedule_groups

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowMap, RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from cascader.plan.group_bytes import group_bytes, group_live
from cascader.plan.group_costs import JobTimes
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import propose, smallest_limit

pytestmark = pytest.mark.law

Divided = tuple[RowGraph, tuple[Group, ...]]


class ToyCost(Struct, frozen=True):
    """A start-up per stripe and some cycles per row; every second part has constants, which cost more each time from home."""

    start_up: int = 5
    per_row: int = 10

    def compute_cycles(self, part: int, start: int, end: int) -> int:
        return self.start_up + (end - start) * (self.per_row + part)

    def constant_bytes(self, part: int) -> int:
        return 0 if part % 2 else 2 + 3 * part

    def direct_cycles(self, part: int, start: int, end: int) -> int:
        return self.compute_cycles(part, start, end) + 4 * self.constant_bytes(part)

    def hidden(self, part: int, start: int, end: int) -> int:  # noqa: ARG002  # as every CostModel
        return 0

    def transfer_cycles(self, part: int) -> int:
        return 6 * self.constant_bytes(part)

    def same_constants(self, part: int) -> int:
        return part

    def times(self, part: int, start: int, end: int) -> JobTimes:
        staged, direct = self.compute_cycles(part, start, end), self.direct_cycles(part, start, end)
        return JobTimes(part, staged, direct, 0, 0, direct, 0, 0, 0)


OPTIONS = PlanOptions(stripe_rows=(1, 2, 4), staging=(0, 5, 1 << 30))


def planner(graph: RowGraph, options: PlanOptions = OPTIONS) -> Planner:
    return Planner(DepthFirstScheduler(graph), ToyCost(), options)


def tensor_bytes(plans: Planner, group: Group) -> int:
    """Bytes of a group by itself, without constants: nothing is staged in the first of its plans."""
    plan = plans.plans(group)[0]
    assert plan.staged == ()
    return plan.memory


@settings(max_examples=200)
@given(divided_graphs(), st.booleans())
def test_the_memory_of_a_plan_is_what_is_held_at_its_fullest_step(divided: Divided, in_place: bool) -> None:  # noqa: FBT001  # drawn
    graph, groups = divided
    plans = planner(graph, PlanOptions(in_place=in_place))
    jobs = [schedule_groups(plans.scheduler, [group]) for group in groups]
    held = iter(bytes_held(graph, [job for some in jobs for job in some], groups, in_place=in_place))
    for group, some in zip(groups, jobs, strict=True):
        most = max(next(held) for _ in some)
        # Of a tensor whose first rows nobody reads plans count more than is held, where it goes from group to group.
        assert tensor_bytes(plans, group) == most or (is_cropped(graph) and tensor_bytes(plans, group) > most)


def layer_by_layer_bytes(graph: RowGraph) -> list[int]:
    """Bytes of all tensors that live while each part runs whole, one after the other."""
    needed, total = needed_rows(graph), [0] * len(graph.parts)
    read = {tensor for part in graph.parts for tensor, _ in part.inputs}
    for index, tensor in enumerate(graph.tensors):
        writers = {i: part for i, part in enumerate(graph.parts) if index in part.outputs}
        uses = [i for i, part in enumerate(graph.parts) if index in (*part.outputs, *(t for t, _ in part.inputs))]
        present = tensor.kind in PRESENT
        first, last = 0 if present else min(uses), len(total) - 1 if tensor.kind in KEPT else max(uses, default=0)
        for part in range(first, last + 1):
            made = (max(rows_made(graph, one, index, 0, needed[i])) + 1 for i, one in writers.items() if i <= part)
            high = tensor.rows if present else max(made)
            # Of what nobody reads, a row is free again once it is written.
            kept = index in read or present or tensor.kind in KEPT
            low = 0 if kept else min(min(rows_made(graph, one, index, 0, needed[i])) for i, one in writers.items() if i >= part)
            total[part] += (high - min(low, high)) * tensor.row_bytes
    return total


def unread_in_two_pieces() -> RowGraph:
    """Two parts that write a row each of a tensor that nobody reads."""
    same, pieces = RowPropagator(1), (RowMap(offset=row, step=1, reach=1, unit=1) for row in range(2))
    parts = (RowPart(f"p{row}", ((0, same),), (1,), 1, segment=row, maps=(at,)) for row, at in enumerate(pieces))
    return RowGraph(tuple(parts), (RowTensor("t0", TensorKind.INPUT, 1, 1), RowTensor("t1", TensorKind.INTERMEDIATE, 2, 1)))


@settings(max_examples=100)
@given(row_graphs())
@example(unread_in_two_pieces())
def test_single_parts_with_results_apart_need_what_layer_by_layer_lifetimes_say(graph: RowGraph) -> None:
    assume(not is_cropped(graph))
    ending = planner(graph, PlanOptions(cascade=False, in_place=False, staging=(0,))).all_plans()
    assert [plans[0].memory for plans in ending] == layer_by_layer_bytes(graph)
    assert all(len(plans) == 1 for plans in ending)


@settings(max_examples=60)
@given(row_graphs(max_parts=4, max_rows=6))
def test_every_switch_does_what_it_says_in_every_combination(graph: RowGraph) -> None:
    segments = [part.segment for part in graph.parts]
    for cascade, in_place, staging, length in product((True, False), (True, False), ((0,), (0, 1 << 30)), (2, 24)):
        options = PlanOptions(stripe_rows=(1, 2), group_length=length, staging=staging, cascade=cascade, in_place=in_place)
        plans = planner(graph, options)
        for last, found in enumerate(plans.all_plans()):
            firsts = {plan.group.first for plan in found}
            longest = length if cascade else 1
            assert firsts == {i for i in range(last + 1) if last - i < longest and segments[i] == segments[last]}
            for plan in found:
                assert plan.group.last == last
                assert not plan.staged or staging != (0,)
                assert plan.memory == tensor_bytes(plans, plan.group) + sum(ToyCost().constant_bytes(part) for part in plan.staged)


@settings(max_examples=50)
@given(row_graphs(max_parts=4, max_rows=6))
def test_the_cycles_of_a_plan_are_its_stripes_or_its_copies_whichever_take_longer(graph: RowGraph) -> None:
    cost, plans = ToyCost(), planner(graph)
    for found in plans.all_plans():
        for plan in found:
            jobs = schedule_groups(plans.scheduler, [plan.group])
            busy = sum(
                (cost.compute_cycles if job.part in plan.staged else cost.direct_cycles)(job.part, job.start, job.end) for job in jobs
            )
            assert plan.cycles == max(busy, sum(cost.transfer_cycles(part) for part in plan.staged))


@settings(max_examples=50)
@given(row_graphs(max_parts=4, max_rows=6))
def test_the_cold_cycles_of_a_plan_are_those_of_its_jobs_each_waiting_for_its_copy(graph: RowGraph) -> None:
    """Copies begin with the group and follow each other in the order of first use."""
    cost, plans = ToyCost(), planner(graph)
    for found in plans.all_plans():
        for plan in found:
            jobs, copied, time, ready = schedule_groups(plans.scheduler, [plan.group]), 0, 0, dict[int, int]()
            for job in jobs:
                if job.part in plan.staged and job.part not in ready:
                    copied += cost.transfer_cycles(job.part)
                    ready[job.part] = copied
            for job in jobs:
                cycles = cost.compute_cycles if job.part in ready else cost.direct_cycles
                time = max(time, ready.get(job.part, 0)) + cycles(job.part, job.start, job.end)
            assert plan.staged == tuple(ready)
            assert plan.cold_cycles == time


def test_constants_are_staged_up_to_and_with_the_size_given() -> None:
    """Parts 0 and 2 have constants of 2 and 8 bytes."""
    graph = chain((4, RowPropagator(4)), (4, RowPropagator(4)), (4, RowPropagator(4)))
    plans = planner(graph, PlanOptions(staging=(0, 1, 2, 7, 8, 1 << 30))).plans(Group(0, 2, 4))
    assert [plan.staged for plan in plans] == [(), (0,), (0, 2)]


def partitions(graph: RowGraph) -> Iterator[list[tuple[int, int]]]:
    """All ways to cut the parts into groups within segments."""
    count = len(graph.parts)
    for cuts in product((False, True), repeat=count - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), count]
        groups = [(first, end - 1) for first, end in pairwise(bounds)]
        if all(graph.parts[first].segment == graph.parts[last].segment for first, last in groups):
            yield groups


def group_choices(graph: RowGraph, first: int, last: int, options: PlanOptions) -> list[tuple[Group, int]]:
    """The stripes and staging sizes that the options allow for a group."""
    height = graph.parts[last].rows
    rows = {height} if first == last else {r if graph.parts[last].atomic else min(r, height) for r in (*options.stripe_rows, height)}
    groups = [Group(first, last, r) for r in sorted(rows)]
    groups += [Group(first, last, min(rows), inner) for inner in options.inner_rows if first < last]
    return [(group, limit) for group in groups for limit in options.staging]


def every_schedule(graph: RowGraph, options: PlanOptions) -> Iterator[tuple[int, int]]:
    """(memory, cycles) of every schedule of the class: division, stripes per group, staging size per group."""
    cost, scheduler = ToyCost(), DepthFirstScheduler(graph)
    held_by: dict[tuple[Group, ...], list[int]] = {}
    jobs_by: dict[Group, tuple[StripeJob, ...]] = {}
    for groups in partitions(graph):
        for chosen in product(*(group_choices(graph, first, last, options) for first, last in groups)):
            key = tuple(group for group, _ in chosen)
            for group in key:
                if group not in jobs_by:
                    jobs_by[group] = schedule_groups(scheduler, [group])
            if key not in held_by:
                held_by[key] = bytes_held(graph, [job for group in key for job in jobs_by[group]], key, in_place=True)
            held = iter(held_by[key])
            memory = cycles = 0
            for group, limit in chosen:
                staged = {part for part in range(group.first, group.last + 1) if 0 < cost.constant_bytes(part) <= limit}
                jobs = jobs_by[group]
                constants = sum(cost.constant_bytes(part) for part in staged)
                memory = max(memory, constants + max(next(held) for _ in jobs))
                busy = sum(
                    (cost.compute_cycles if job.part in staged else cost.direct_cycles)(job.part, job.start, job.end) for job in jobs
                )
                cycles += max(busy, sum(cost.transfer_cycles(part) for part in staged))
            yield memory, cycles


@settings(max_examples=100)
@given(row_graphs(max_parts=5, max_rows=4))
def test_no_schedule_of_the_class_beats_the_search_and_the_search_finds_only_such_schedules(graph: RowGraph) -> None:
    options = PlanOptions(stripe_rows=(1, 2), staging=(0, 2, 1 << 30))
    ending = planner(graph, options).all_plans()
    schedules = set(every_schedule(graph, options))
    smallest = min(memory for memory, _ in schedules)
    assert smallest == smallest_limit(ending)
    assert propose(ending, smallest - 1) is None
    for limit in sorted({memory for memory, _ in schedules}):
        found = propose(ending, limit)
        assert found is not None
        assert found.cycles == min(cycles for memory, cycles in schedules if memory <= limit)
        assert found.memory <= limit


@pytest.mark.parametrize(("rows", "memory"), [(1, 14 + 3 * 4 + 1), (2, 14 + 4 * 4), (8, 16 + 8 * 4)])
def test_a_cascade_of_two_3x3_convolutions_needs_its_input_and_the_rolling_rows(rows: int, memory: int) -> None:
    """8 rows of 2, of 4 and of 1 byte: when the rolling buffer of 3 or 4 rows is full, the input's first row is no longer needed."""
    window = RowPropagator(8, taps=3, pad=1)
    plans = planner(chain((8, window), (8, window), row_bytes=(2, 4, 1)))
    assert tensor_bytes(plans, Group(0, 1, rows)) == memory


def test_an_input_of_which_a_later_group_reads_the_end_alone_is_whole_at_first() -> None:
    """Two bytes of it, and one each of what the first group reads and writes."""
    kinds = TensorKind.INPUT, TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.OUTPUT
    tensors = tuple(RowTensor(f"t{number}", kind, rows, 1) for number, (kind, rows) in enumerate(zip(kinds, (2, 1, 1, 1), strict=True)))
    second_row = RowPropagator(1, at=RowMap(offset=1, step=1, reach=1, unit=1))
    parts = RowPart("first", ((1, RowPropagator(1)),), (2,), 1), RowPart("second", ((0, second_row),), (3,), 1)
    scheduler, group = DepthFirstScheduler(RowGraph(parts, tensors)), Group(0, 0, 1)
    assert group_bytes(scheduler, group, in_place=True) == group_live(scheduler, group, in_place=True).max() == 4
