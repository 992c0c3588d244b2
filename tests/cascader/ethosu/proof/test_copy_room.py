"""Room for copies: what a schedule copies is never said to have no room, and what is said to have none is copied by no schedule."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from test_proof import every_set, planned

from cascader.ethosu.proof.copy_room import ProofRoom
from cascader.ethosu.search.divisions import Divisions
from cascader.plan.buffers import buffers
from cascader.plan.depth_first import group_table


def test_live_bytes_of_a_group_are_those_of_its_jobs_among_all_groups() -> None:
    plans = planned("zoo:tiny_conv")
    for groups in Divisions(plans).all_groups():
        room, jobs = ProofRoom(plans, 0), group_table(plans.scheduler, groups)
        extents = buffers(plans.scheduler, jobs, groups, in_place=plans.options.plans.in_place).extents
        live = list(chain.from_iterable(room.live(group).tolist() for group in groups))
        held = [0] * len(jobs)
        for extent in extents:
            for step, (low, high) in enumerate(zip(extent.low, extent.high, strict=True), extent.start):
                held[step] += int(high - low)
        assert all(bound <= bytes_ for bound, bytes_ in zip(live, held, strict=True))


@pytest.mark.parametrize("budget", [16384, 8912, 4096])
def test_no_schedule_copies_what_has_no_room(budget: int) -> None:
    plans = planned("zoo:tiny_conv")
    room, refused = ProofRoom(plans, budget), 0
    for groups in Divisions(plans).all_groups():
        for chosen in every_set(plans):
            fits = all(room.holds(group, chosen, False) for group in groups)
            refused += not fits
            if not fits or chosen & room.never():
                assert not list(plans.copy_sets.drafts(groups, chosen, budget, shares=False))
    assert refused or budget > 8912


def test_fewer_copies_have_room_where_more_do() -> None:
    plans = planned("zoo:tiny_conv")
    groups = {group for first in range(len(plans.graph.parts)) for group in Divisions(plans).groups(first)}
    for budget in (16384, 8912, 4096):
        room = ProofRoom(plans, budget)
        for group in groups:
            for more in every_set(plans):
                if room.holds(group, more, False):
                    assert all(room.holds(group, frozenset(some), False) for some in combinations(more, max(0, len(more) - 1)))
