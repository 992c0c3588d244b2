"""Job costs: what a device says of the jobs of groups, asked once for each kind of job and of pair however the groups are put together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import field
from row_graphs import row_graphs, schedule_groups
from toy_costs import ToyCosts

from cascader.draft.group_moves import divisions
from cascader.draft.job_costs import JobCosts
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, StripeJob, group_table
from cascader.plan.group_costs import JobTimes
from cascader.prefetch.copies import UNKNOWN, CostedJobs

pytestmark = pytest.mark.law

COST = ToyCosts(moves=True)


class Asked(ToyCosts, frozen=True):
    """Toy costs and a made-up overlap by kinds of pairs, with everything that they were asked for."""

    scheduler: DepthFirstScheduler | None = None
    jobs: list[StripeJob] = field(default_factory=list)

    def times(self, part: int, start: int, end: int) -> JobTimes:
        self.jobs.append(StripeJob(part, start, end))
        return COST.times(part, start, end)

    def shared(self, before: StripeJob, after: StripeJob, *, before_staged: bool, staged: bool) -> int:
        assert self.scheduler is not None
        distance = self.scheduler.distance(before, after)
        kind = before.part, before.end - before.start, after.part, after.end - after.start, distance, before_staged, staged
        return hash(kind) % 1000


def shared(costed: CostedJobs, step: int, before: int, now: int) -> int:
    """As a timeline asks for it."""
    pair = int(costed.pairs[step])
    costs, case = costed.pair_costs[pair], 2 * before + now
    if costs[case] == UNKNOWN:
        assert costed.shared is not None
        costs[case] = costed.shared(pair, before, now)
    return int(costs[case])


@settings(max_examples=60)
@given(row_graphs(4, max_rows=4), st.data())
def test_jobs_and_neighbours_have_the_cycles_of_the_device_whatever_groups_were_asked_for_before(
    graph: RowGraph, data: st.DataObject
) -> None:
    scheduler = DepthFirstScheduler(graph)
    device = Asked(scheduler=scheduler, moves=True)
    costs = JobCosts(scheduler, device, device)
    for groups in data.draw(st.lists(st.sampled_from(list(divisions(graph, (1, 2)))), max_size=4)):
        jobs, costed = schedule_groups(scheduler, groups), costs.costed(groups, group_table(scheduler, groups))
        assert costed.parts.tolist() == [job.part for job in jobs]
        found = [tuple(costed.times[kind].tolist()) for kind in costed.kinds]
        assert found == [COST.times(job.part, job.start, job.end).line for job in jobs]
        times = [JobTimes.of(job.part, line) for job, line in zip(jobs, found, strict=True)]
        least = sum(min(one.staged - one.staged_lead, one.direct - one.lead) for one in times)
        assert costs.least(groups) == least - sum(device.hidden(job.part, job.start, job.end) for job in jobs)
        for step in range(1, len(jobs)):
            for before, now in ((False, True), (True, False), (True, True)):
                expected = device.shared(jobs[step - 1], jobs[step], before_staged=before, staged=now)
                assert shared(costed, step, before, now) == expected


@settings(max_examples=30)
@given(row_graphs(4, max_rows=4))
def test_no_kind_of_job_is_asked_twice(graph: RowGraph) -> None:
    scheduler = DepthFirstScheduler(graph)
    device = Asked(scheduler=scheduler, moves=True)
    costs = JobCosts(scheduler, device, device)
    for groups in list(divisions(graph, (1, 2)))[:8]:
        costs.costed(groups, group_table(scheduler, groups))
    kinds = [(job.part, job.end - job.start) for job in device.jobs]
    assert len(kinds) == len(set(kinds))


@settings(max_examples=10)
@given(row_graphs(4, max_rows=4))
def test_without_a_word_on_neighbours_jobs_share_nothing(graph: RowGraph) -> None:
    groups = next(divisions(graph, (1,)))
    scheduler = DepthFirstScheduler(graph)
    assert JobCosts(scheduler, COST, None).costed(groups, group_table(scheduler, groups)).shared is None
