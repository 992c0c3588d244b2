"""Blocks chosen by replays save cycles or change nothing, compute the same bytes, and take no more replays than they may."""

from __future__ import annotations

from functools import cache

import pytest
from cascades import expected, outputs
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.ethosu.search.form import Form, Place
from cascader.ethosu.search.replayed_changes import with_replayed_blocks
from cascader.ethosu.verify.check import check_schedule
from npu_model.compiled.network import CompiledNetwork
from npu_model.shapes import Shape3D
from npu_testbed.memory_options import MemoryOptions
from sim import quick_cycles, replay_network

pytestmark = pytest.mark.law

SYSTEM = MemoryOptions().memory_system()
NAMES = ("tiny_residual", "tiny_conv")
PLENTY = 10**9


@cache
def form(name: str) -> Form:
    return Form(Place(0, 1), network(name), DEFAULT, SYSTEM, DEFAULT_OPTIONS, Provenance())


@cache
def schedule(name: str) -> Schedule:
    """The smallest schedule, all of its jobs in small blocks: slow ones, that replays can better."""
    made = form(name).cascader.smallest().schedule
    kernels = made.network.kernels
    jobs = [job if job.block is None else replace(job, block=Shape3D(2, 2, kernels[job.part].operation.block.depth)) for job in made.jobs]
    return replace(made, jobs=tuple(jobs))


class Counted:
    """A replay that counts the networks that it is asked for."""

    def __init__(self) -> None:
        self.count = 0
        self._replay = Replayer(quick_cycles, SYSTEM)

    def __call__(self, asked: CompiledNetwork) -> int:
        self.count += 1
        return self._replay(asked)


def replayed(made: Schedule) -> int:
    return replay_network(lower(made), SYSTEM).cycles


@pytest.mark.parametrize("name", NAMES)
def test_other_blocks_take_fewer_cycles_in_the_same_bytes_and_compute_the_same(name: str) -> None:
    slow = schedule(name)
    cycles = replayed(slow)
    made, fewer = with_replayed_blocks(form(name), slow, cycles, Replayer(quick_cycles, SYSTEM), PLENTY)
    check_schedule(made)
    assert fewer == replayed(made) < cycles
    assert replace(made, jobs=slow.jobs) == slow
    assert [(job.part, job.rows) for job in made.jobs] == [(job.part, job.rows) for job in slow.jobs]
    assert outputs(lower(made)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_block_that_was_tried_saves_more_at_the_end(name: str) -> None:
    slow = schedule(name)
    made, fewer = with_replayed_blocks(form(name), slow, replayed(slow), Replayer(quick_cycles, SYSTEM), PLENTY)
    assert with_replayed_blocks(form(name), made, fewer, Replayer(quick_cycles, SYSTEM), PLENTY) == (made, fewer)


@pytest.mark.parametrize("replays", [0, 1, 10, 20])
def test_no_more_replays_are_made_than_the_effort_allows(replays: int) -> None:
    slow = schedule("tiny_residual")
    cycles, judge = replayed(slow), Counted()
    made, fewer = with_replayed_blocks(form("tiny_residual"), slow, cycles, judge, replays * cycles)
    assert judge.count <= replays
    assert (fewer < cycles) == (judge.count > 0) == (made != slow)
