"""The timeline of some jobs with copies, from a fresh start, which several test files ask for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cascader.plan.group_costs import JobTimes
from cascader.prefetch.free_space import Room
from cascader.prefetch.timeline import Constants, Prefetcher, Shared, Timeline, nothing_shared


def prefetch(jobs: Sequence[JobTimes], wanted: Collection[Constants], room: Room, shared: Shared = nothing_shared) -> Timeline:
    """The timeline of the jobs with the constants that find room."""
    return Prefetcher(jobs, room, shared).timeline(wanted)
