"""Pace: what a device says of the jobs of groups, asked once for each of them however the groups are put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from row_graphs import row_graphs
from toy_costs import ToyCosts

from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import PullScheduler, StripeJob, schedule_groups
from cascader.prefetch.timeline import JobTimes
from cascader.search.job_costs import Pace
from cascader.search.local_moves import divisions

COST = ToyCosts()


@dataclass(frozen=True)
class Asked(ToyCosts):
    """Toy costs and a made-up overlap, with everything that they were asked for."""

    jobs: list[StripeJob] = field(default_factory=list)
    pairs: list[tuple[object, ...]] = field(default_factory=list)

    def times(self, part: int, start: int, end: int) -> JobTimes:
        self.jobs.append(StripeJob(part, start, end))
        return COST.times(part, start, end)

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        self.pairs.append((before, after, before_staged, staged))
        return shares(before, after, before_staged=before_staged, staged=staged)


def shares(before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
    return 4 * (before.part * 100 + before.start * 10 + after.start) + 2 * before_staged + staged


@settings(max_examples=60)
@given(row_graphs(4, max_rows=4), st.data())
def test_jobs_and_neighbours_have_the_cycles_of_the_device_whatever_groups_were_asked_for_before(
    graph: RowGraph, data: st.DataObject
) -> None:
    scheduler, asked = PullScheduler(graph), Asked()
    pace = Pace(scheduler, asked, asked)
    for groups in data.draw(st.lists(st.sampled_from(list(divisions(graph, (1, 2)))), max_size=4)):
        jobs, shared = schedule_groups(scheduler, groups), pace.shared(groups)
        assert pace.times(groups) == [COST.times(job.part, job.start, job.end) for job in jobs]
        for step in range(1, len(jobs)):
            for before, now in ((False, True), (True, False), (True, True)):
                assert shared(step, before, now) == shares(jobs[step - 1], jobs[step], before_staged=before, staged=now)


@settings(max_examples=30)
@given(row_graphs(4, max_rows=4))
def test_of_the_same_groups_nothing_is_asked_twice(graph: RowGraph) -> None:
    scheduler, asked = PullScheduler(graph), Asked()
    pace = Pace(scheduler, asked, asked)
    groups = max(divisions(graph, (1,)), key=len)
    for _ in range(2):
        pace.times(groups)
        for step in range(1, len(schedule_groups(scheduler, groups))):
            pace.shared(groups)(step, True, False)
    assert len(asked.jobs) == len(set(asked.jobs))
    assert len(asked.pairs) == len(set(asked.pairs)) == len(asked.jobs) - 1


@settings(max_examples=10)
@given(row_graphs(4, max_rows=4))
def test_without_a_word_on_neighbours_jobs_share_nothing(graph: RowGraph) -> None:
    groups = next(divisions(graph, (1,)))
    assert Pace(PullScheduler(graph), COST, None).shared(groups)(1, True, True) == 0
