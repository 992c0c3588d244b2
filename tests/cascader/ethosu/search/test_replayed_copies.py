"""Copies chosen by replays save cycles or change nothing, compute the same bytes, and take no more replays than they may."""

from __future__ import annotations

from functools import cache

import pytest
from asked_for import system_said
from cascades import expected, outputs
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.draft.draft import COPY, JOB, Draft, lines
from cascader.draft.replayed_moves import changed_copies, copy_count, with_copies_ahead
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.remote_calls import AHEAD, Share, change, issued_later
from cascader.ethosu.search.replayed_changes import with_replayed_copies
from cascader.ethosu.search.task import Replay
from cascader.ethosu.verify.check import check_schedule
from npu_model.compiled.network import CompiledNetwork
from sim import quick_cycles, replay_network

pytestmark = pytest.mark.law

SYSTEM = system_said()
NAMES = ("tiny_residual", "resnet8")
PLENTY = 10**12


@cache
def form(name: str) -> Form:
    return Form(FormRank(0, 1), network(name), DEFAULT, SYSTEM, DEFAULT_OPTIONS, Provenance())


@cache
def drafted(name: str) -> Draft:
    """The draft that is expected to be fastest in an arena that holds everything: with all of its copies."""
    cascader = form(name).cascader
    made = cascader.drafts_at(cascader.most_bytes())[0]
    assert copy_count(made) > 1
    return made


def lowered(name: str, made: Draft) -> CompiledNetwork:
    return lower(form(name).schedule(made))


def replayed(name: str, made: Draft) -> int:
    return replay_network(lowered(name, made), SYSTEM).cycles


class Counted:
    """A replay that counts the networks that it is asked for, each of which takes a cycle less than the one before."""

    def __init__(self, cycles: int) -> None:
        self.count = 0
        self._cycles = cycles

    def __call__(self, _asked: CompiledNetwork) -> int:
        self.count += 1
        return self._cycles - self.count


@pytest.mark.parametrize("name", NAMES)
def test_every_copy_is_left_out_once_and_issued_later_once_wherever_it_begins(name: str) -> None:
    made = form(name).schedule(drafted(name))
    count = len(made.copies)
    for first in range(count):
        tried = [(number, form(name).schedule(one)) for number, one in changed_copies(drafted(name), first)]
        assert [number for number, _ in tried[:count]] == [*range(first, count), *range(first)]
        for number, without in tried[:count]:
            assert without.copies == made.copies[:number] + made.copies[number + 1 :]
        assert all(len(later.copies) == count for _, later in tried[count:])
        for _, one in tried:
            check_schedule(one)


@pytest.mark.parametrize("ahead", [0, *AHEAD, 1000])
def test_copies_are_issued_as_many_jobs_ahead_at_most_in_their_order_and_none_earlier_than_before(ahead: int) -> None:
    begun = drafted("resnet8")
    made = with_copies_ahead(begun, ahead)
    before, after, parts = lines(begun.copies, COPY), lines(made.copies, COPY), lines(begun.jobs, JOB)[:, 0].tolist()
    assert replace(made, copies=begun.copies) == begun
    assert (after[:, 1:] == before[:, 1:]).all()
    later = 1 << 60
    for step, was, reader in reversed([*zip(after[:, 0].tolist(), before[:, 0].tolist(), before[:, 3].tolist(), strict=True)]):
        assert was <= step == max(was, min(later, parts.index(reader) - ahead))
        later = step
    check_schedule(form("resnet8").schedule(made))
    assert outputs(lowered("resnet8", made)) == expected("resnet8")
    assert (made == begun) == (ahead == 1000)


@pytest.mark.parametrize("name", NAMES)
def test_all_copies_are_issued_as_many_jobs_ahead_as_is_fastest(name: str) -> None:
    begun = drafted(name)
    cycles = replayed(name, begun)
    made, fewer = issued_later(form(name), begun, cycles, Replayer(quick_cycles, SYSTEM))
    tried = [replayed(name, with_copies_ahead(begun, ahead)) for ahead in AHEAD]
    assert fewer == replayed(name, made) == min(cycles, *tried)


@pytest.mark.parametrize("name", NAMES)
def test_other_copies_take_no_more_cycles_in_the_same_bytes_and_compute_the_same(name: str) -> None:
    begun = drafted(name)
    cycles = replayed(name, begun)
    made, fewer = with_replayed_copies(form(name), begun, cycles, Replayer(quick_cycles, SYSTEM), PLENTY)
    check_schedule(form(name).schedule(made))
    assert fewer == replayed(name, made) <= cycles
    assert replace(made, copies=begun.copies) == begun
    assert outputs(lowered(name, made)) == expected(name)
    assert with_replayed_copies(form(name), made, fewer, Replayer(quick_cycles, SYSTEM), PLENTY) == (made, fewer)


def test_copies_that_hold_up_more_than_they_help_are_left_out() -> None:
    """The judge counts operations: without copies there are fewest."""
    made = drafted("resnet8")

    def judge(asked: CompiledNetwork) -> int:
        return sum(len(program.operations) for program in asked.programs)

    begun = judge(lowered("resnet8", made))
    found, operations = with_replayed_copies(form("resnet8"), made, begun, judge, PLENTY)
    assert not found.copies
    assert operations <= begun - copy_count(made)


@pytest.mark.parametrize("replays", [0, 1, 3, 10, 40])
def test_no_more_replays_are_made_than_are_allowed_and_none_where_not_every_copy_has_one(replays: int) -> None:
    made = drafted("resnet8")
    judge = Counted(10**6)
    found, cycles = with_replayed_copies(form("resnet8"), made, 10**6, judge, replays * 10**6)
    assert judge.count <= replays
    assert (judge.count > 0) == (found != made) == (cycles < 10**6) == (replays >= copy_count(made))


@pytest.mark.parametrize("effort", [0, 2, 20, 200])
def test_blocks_take_no_more_than_the_effort_and_copies_half_of_it(effort: int) -> None:
    made = drafted("tiny_residual")
    cycles = replayed("tiny_residual", made)
    count = 0
    quick: Replay = Replayer(quick_cycles, SYSTEM)

    def judge(asked: CompiledNetwork) -> int:
        nonlocal count
        count += 1
        return quick(asked)

    found, fewer = change(form("tiny_residual"), made, cycles, judge, Share(effort * cycles, effort * cycles // 2))
    assert count <= effort + effort * cycles // 2 // fewer
    check_schedule(form("tiny_residual").schedule(found))
    assert fewer == replayed("tiny_residual", found) <= cycles
