"""Blocks chosen by replays save cycles or change nothing, compute the same bytes, and take no more replays than they may."""

from __future__ import annotations

from functools import cache

import pytest
from asked_for import system_said
from cascades import expected, outputs
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.draft.draft import JOB, Draft, lines, table
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.contest import DraftRun
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.ethosu.schedule.drafts import own_blocks
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.remote_calls import Share, change
from cascader.ethosu.search.replayed_changes import with_replayed_blocks
from cascader.ethosu.verify.check import check_schedule
from npu_model.compiled.network import CompiledNetwork
from sim import quick_cycles, replay_network

pytestmark = pytest.mark.law

SYSTEM = system_said()
NAMES = ("tiny_residual", "tiny_conv")
PLENTY = 10**9


@cache
def form(name: str) -> Form:
    return Form(FormRank(0, 1), network(name), DEFAULT, SYSTEM, DEFAULT_OPTIONS, Provenance())


@cache
def drafted(name: str) -> Draft:
    """The smallest draft, all of its jobs in small blocks: slow ones, that replays can better."""
    made, own = form(name).cascader.smallest(), own_blocks(form(name).network)
    jobs = lines(made.jobs, JOB).tolist()
    return replace(made, jobs=table([(*job[:3], *((2, 2, own[job[0]][2]) if any(own[job[0]]) else (0, 0, 0))) for job in jobs], JOB))


class Counted:
    """A replay that counts the networks that it is asked for."""

    def __init__(self) -> None:
        self.count = 0
        self._replay = Replayer(quick_cycles, SYSTEM)

    def __call__(self, asked: CompiledNetwork) -> int:
        self.count += 1
        return self._replay(asked)


def replayed(name: str, made: Draft) -> int:
    return replay_network(lower(form(name).schedule(made)), SYSTEM).cycles


@pytest.mark.parametrize("name", NAMES)
def test_other_blocks_take_fewer_cycles_in_the_same_bytes_and_compute_the_same(name: str) -> None:
    slow = drafted(name)
    cycles = replayed(name, slow)
    made, fewer = with_replayed_blocks(form(name), slow, cycles, Replayer(quick_cycles, SYSTEM), PLENTY)
    check_schedule(form(name).schedule(made))
    assert fewer == replayed(name, made) < cycles
    assert replace(made, jobs=slow.jobs) == slow
    assert lines(made.jobs, JOB)[:, :3].tolist() == lines(slow.jobs, JOB)[:, :3].tolist()
    assert outputs(lower(form(name).schedule(made))) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_block_that_was_tried_saves_more_at_the_end(name: str) -> None:
    slow = drafted(name)
    made, fewer = with_replayed_blocks(form(name), slow, replayed(name, slow), Replayer(quick_cycles, SYSTEM), PLENTY)
    assert with_replayed_blocks(form(name), made, fewer, Replayer(quick_cycles, SYSTEM), PLENTY) == (made, fewer)


@pytest.mark.parametrize("replays", [0, 1, 10, 20])
def test_no_more_replays_are_made_than_the_effort_allows(replays: int) -> None:
    slow = drafted("tiny_residual")
    cycles, judge = replayed("tiny_residual", slow), Counted()
    made, fewer = with_replayed_blocks(form("tiny_residual"), slow, cycles, judge, replays * cycles)
    assert judge.count <= replays
    assert (fewer < cycles) == (judge.count > 0) == (made != slow)


def test_changes_that_go_on_try_other_blocks_than_those_before() -> None:
    slow, judge = drafted("tiny_residual"), Replayer(lambda _: 1000, SYSTEM)
    tried: list[set[Draft]] = []
    for before in (0, 5000):
        asked: set[Draft] = set()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Judge, "_replayed", lambda _, one, __, asked=asked: asked.add(one) or DraftRun((1000, 0)))
            assert with_replayed_blocks(form("tiny_residual"), slow, 1000, judge, 5000, before) == (slow, 1000)
        tried.append(asked)
    first, then = tried
    assert len(first) == len(then) == 5
    assert not first & then


@pytest.mark.parametrize("cover", [None, 10**9, 1])
def test_blocks_are_left_where_replays_do_not_cover_every_part(cover: int | None) -> None:
    slow = drafted("tiny_residual")
    cycles = replayed("tiny_residual", slow)
    _, fewer = change(form("tiny_residual"), slow, cycles, Replayer(quick_cycles, SYSTEM), Share(20 * cycles, 0, 0, cover))
    assert (fewer < cycles) == (cover != 1)
