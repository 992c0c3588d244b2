"""The depth-first order: which rows are made, when, and what two hand-checked networks need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from naive_rows import borders, needed_rows, rows_behind, rows_for, rows_read
from row_graphs import chain, divided_graphs, most_rows, schedule_groups

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart, RowTensor
from cascader.graph.row_maps import RowPropagator
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob
from cascader.plan.liveness import live_rows

pytestmark = pytest.mark.law

Divided = tuple[RowGraph, tuple[Group, ...]]


def jobs_of(graph: RowGraph, groups: tuple[Group, ...]) -> tuple[StripeJob, ...]:
    return schedule_groups(DepthFirstScheduler(graph), groups)


propagators = st.builds(
    RowPropagator, rows=st.integers(1, 12), stride=st.integers(1, 3), taps=st.integers(1, 4), pad=st.just(0), upscale=st.integers(1, 2)
)


@given(propagators, st.integers(0, 3), st.integers(0, 8), st.integers(1, 5))
def test_the_demand_of_some_rows_is_the_hull_of_what_each_row_needs(propagator: RowPropagator, pad: int, first: int, count: int) -> None:
    propagator = replace(propagator, pad=min(pad, propagator.taps - 1))
    rows = {source for row in range(first, first + count) for source in rows_behind(propagator, row)}
    assume(rows_behind(propagator, first) and rows_behind(propagator, first + count - 1))
    assert propagator.demand(first, first + count) == (min(rows), max(rows) + 1)


@settings(max_examples=300)
@given(divided_graphs())
def test_every_row_is_made_once_in_order_and_no_more_than_are_needed(divided: Divided) -> None:
    graph, groups = divided
    jobs = jobs_of(graph, groups)
    for index, needed in enumerate(needed_rows(graph)):
        made = [row for job in jobs if job.part == index for row in range(job.start, job.end)]
        assert made == list(range(needed))


@settings(max_examples=300)
@given(divided_graphs())
def test_every_row_is_made_before_it_is_read(divided: Divided) -> None:
    graph, groups = divided
    done = [0] * len(graph.parts)
    for job in jobs_of(graph, groups):
        part = graph.parts[job.part]
        for tensor, propagator in part.inputs:
            wanted = rows_read(part, propagator, job.start, job.end)
            for earlier in range(job.part):
                if tensor in graph.parts[earlier].outputs:
                    assert done[earlier] >= rows_for(graph, graph.parts[earlier], tensor, wanted)
        done[job.part] = job.end


@settings(max_examples=200)
@given(divided_graphs())
def test_stripes_begin_at_whole_alignments_and_whole_parts_are_one_job(divided: Divided) -> None:
    graph, groups = divided
    for job in jobs_of(graph, groups):
        part = graph.parts[job.part]
        assert {job.start, job.end} <= {*borders(part)}
        assert not part.atomic or (job.start, job.end) == (0, part.rows)


@settings(max_examples=200)
@given(divided_graphs())
def test_groups_follow_each_other_and_an_overwriting_part_waits_for_those_before_it(divided: Divided) -> None:
    graph, groups = divided
    jobs = jobs_of(graph, groups)
    group_of = [next(i for i, group in enumerate(groups) if group.first <= job.part <= group.last) for job in jobs]
    assert group_of == sorted(group_of)
    for index, part in enumerate(graph.parts):
        first = min(step for step, job in enumerate(jobs) if job.part == index)
        assert all(step < first for step, job in enumerate(jobs) if job.part in part.after)


@settings(max_examples=200)
@given(divided_graphs())
def test_a_group_that_begins_later_makes_the_jobs_of_the_longer_one_that_fall_to_its_parts(divided: Divided) -> None:
    graph, groups = divided
    scheduler = DepthFirstScheduler(graph)
    for group in groups:
        jobs = schedule_groups(scheduler, [group])
        for first in range(group.first + 1, group.last + 1):
            assert schedule_groups(scheduler, [group._replace(first=first)]) == tuple(job for job in jobs if job.part >= first)


@settings(max_examples=200)
@given(divided_graphs(), st.integers(1, 4))
def test_the_last_part_of_a_group_is_asked_for_the_stripe_rows(divided: Divided, rows: int) -> None:
    graph, groups = divided
    scheduler = DepthFirstScheduler(graph)
    for group in groups:
        last = graph.parts[group.last]
        heights = [j.end - j.start for j in schedule_groups(scheduler, [group._replace(stripe_rows=rows)]) if j.part == group.last]
        whole = rows if last.align == 1 else -(-rows // last.align) * last.align
        # Behind an odd phase the first stripe ends one row earlier, at the next border.
        assert last.atomic or all(height == min(last.rows, whole) for height in heights[bool(last.phase) : -1])


def conv(rows: int, taps: int = 3, pad: int = 0, stride: int = 1) -> RowPropagator:
    return RowPropagator(rows, stride, taps, pad)


def test_three_output_rows_of_a_3x3_convolution_need_five_input_rows_and_of_two_in_a_chain_seven() -> None:
    """RFC 0037: an output stripe (1,3,3,4) needs an input stripe (1,5,5,8)."""
    low, high = conv(26).demand(6, 9)
    assert (low, high) == (6, 11)
    assert conv(28).demand(low, high) == (6, 13)


@pytest.mark.parametrize(("rows", "kept"), [(24, 18432), (6, 4608), (1, 768)])
def test_the_two_convolutions_of_the_rfc_keep_only_a_stripe_between_them(rows: int, kept: int) -> None:
    """(1,26,26,3) -3x3-> (1,24,24,32) -1x1-> (1,24,24,8): row stripes of 6 keep 4608 bytes of 18432."""
    graph = chain((24, conv(26)), (24, conv(24, taps=1)), row_bytes=(26 * 3, 24 * 32, 24 * 8))
    jobs = jobs_of(graph, (Group(0, 1, rows),))
    assert most_rows(live_rows(graph, jobs)[1]) * 24 * 32 == kept


def test_a_3x3_consumer_keeps_two_rows_more_than_it_makes() -> None:
    graph = chain((26, conv(28)), (24, conv(26)))
    assert [most_rows(live_rows(graph, jobs_of(graph, (Group(0, 1, rows),)))[1]) for rows in (1, 2, 4, 24)] == [3, 4, 6, 26]


def test_the_stem_of_mobilenet_v1_keeps_two_to_four_rows_between_its_parts() -> None:
    """224x224x3 -3x3/2-> 112x112x32 -dw 3x3-> 112x112x32 -1x1-> 112x112x64 -dw 3x3/2-> 56x56x64, one row at a time."""
    graph = chain((112, conv(224, stride=2)), (112, conv(112, pad=1)), (112, conv(112, taps=1)), (56, conv(112, stride=2)))
    jobs = [(job.part, job.start, job.end) for job in jobs_of(graph, (Group(0, 3, 1),))]
    assert jobs[:8] == [(0, 0, 2), (0, 2, 3), (1, 0, 2), (2, 0, 2), (0, 3, 4), (1, 2, 3), (2, 2, 3), (3, 0, 1)]
    assert jobs[8:12] == [(0, 4, 6), (1, 3, 5), (2, 3, 5), (3, 1, 2)]
    lives = live_rows(graph, jobs_of(graph, (Group(0, 3, 1),)))
    assert [most_rows(lives[tensor]) for tensor in range(5)] == [224, 4, 2, 3, 56]


def test_rows_that_nobody_reads_are_not_made() -> None:
    """A 1x1 convolution with stride 2 reads 31 of 32 rows."""
    graph = chain((32, conv(32, taps=1)), (16, conv(32, taps=1, stride=2)))
    assert DepthFirstScheduler(graph).needed == (31, 16)


def test_stripes_behind_an_upscaler_are_whole_input_rows_though_three_taps_ask_for_odd_ones() -> None:
    graph = chain((8, RowPropagator(4, upscale=2)), (6, conv(8)))
    graph = replace(graph, parts=(replace(graph.parts[0], align=2), graph.parts[1]))
    made = [(job.start, job.end) for job in jobs_of(graph, (Group(0, 1, 1),)) if job.part == 0]
    assert made == [(0, 2), (2, 4), (4, 6), (6, 8)]


def state_graph() -> RowGraph:
    """Part 0 reads the variable with three taps, part 1 writes it from the input alone."""
    tensors = (
        RowTensor("in", TensorKind.INPUT, 4, 1),
        RowTensor("state", TensorKind.VARIABLE, 4, 1),
        RowTensor("out", TensorKind.OUTPUT, 4, 1),
    )
    identity = RowPropagator(4)
    parts = (
        RowPart("reader", ((0, identity), (1, RowPropagator(4, taps=3, pad=1))), (2,), 4),
        RowPart("writer", ((0, identity),), (1,), 4, after=(0,)),
    )
    return RowGraph(parts, tensors)


def test_a_variable_is_read_whole_before_it_is_written() -> None:
    assert [job.part for job in jobs_of(state_graph(), (Group(0, 1, 1),))] == [0, 0, 0, 0, 1, 1, 1, 1]


SCRIPT = """
from cascader.plan.depth_first import *
from test_depth_first import conv, chain, schedule_groups, state_graph
graph = chain((24, conv(26)), (24, conv(24, taps=1)))
print(schedule_groups(DepthFirstScheduler(graph), [Group(0, 1, 3)]), schedule_groups(DepthFirstScheduler(state_graph()), [Group(0, 1, 2)]))
"""


def test_the_jobs_are_the_same_whatever_the_hash_seed() -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1]), str(here.parents[2])])
    texts = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        texts.append(subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True, text=True).stdout)
    assert texts[0] == texts[1] != ""


def test_parts_before_the_last_make_no_more_rows_at_a_time_than_their_bound() -> None:
    """Two rows of a pooling with stride 2 need four of what it reads: in one job, or in two of two rows each."""
    graph = chain((8, RowPropagator(8)), (4, RowPropagator(8, stride=2, taps=2)))
    jobs = [
        [(job.part, job.start, job.end) for job in schedule_groups(DepthFirstScheduler(graph), [Group(0, 1, 2, inner)])] for inner in (0, 2)
    ]
    assert jobs == [
        [(0, 0, 4), (1, 0, 2), (0, 4, 8), (1, 2, 4)],
        [(0, 0, 2), (0, 2, 4), (1, 0, 2), (0, 4, 6), (0, 6, 8), (1, 2, 4)],
    ]
