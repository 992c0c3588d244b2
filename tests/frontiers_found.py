"""Frontiers of two networks, each searched once, and made-up points: for tests of points and of budgets."""

from __future__ import annotations

from functools import cache
from typing import cast

from asked_for import system_said
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network
from scheduling import schedule as layer_by_layer

from cascader.draft.draft import JOB, Draft, lines, table
from cascader.draft.drafter import DraftOptions
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.search import SearchResult, explore, search
from cascader.ethosu.search.task import Task
from cascader.search.workers import workers
from npu_testbed.searches.frontiers import Frontier, replayed_frontier
from sim import quick_cycles

SYSTEM = system_said()
NETWORKS = ("tiny_residual", "resnet8")
"""The smaller has every choice to itself; the larger has residual sums and weights that are worth staging."""


def task(name: str) -> Task:
    options = CascadeOptions(rungs=5, dense=0, drafts=DraftOptions(moves=60))
    return Task(network(name), DEFAULT, SYSTEM, Replayer(quick_cycles, SYSTEM), Provenance(model=f"zoo:{name}"), options)


@cache
def found(name: str) -> SearchResult:
    with workers(1) as executor:
        return search(explore(task(name), executor), EVERYTHING, executor)


@cache
def frontier(name: str) -> Frontier:
    with workers(1) as executor:
        return replayed_frontier(task(name), found(name), executor)


def plain(memory: int, cycles: int) -> Draft:
    return replace(draft_of(layer_by_layer("tiny_conv")), memory=memory, cycles=cycles)


def striped(memory: int, cycles: int) -> Draft:
    jobs = lines(plain(memory, cycles).jobs, JOB).tolist()
    return replace(plain(memory, cycles), jobs=table([*jobs, *jobs], JOB))


def figures(*some: tuple[int, int]) -> tuple[Replayed, ...]:
    """Replayed drafts of so many bytes and cycles, each of a form of its own, of which nothing else is asked."""
    form = cast(Form, None)
    return tuple(Replayed(form, replace(plain(memory, cycles), form=number), cycles) for number, (memory, cycles) in enumerate(some))
