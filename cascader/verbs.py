"""Verbs of the cascader: a request answered with one schedule, or with its whole frontier."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.judge.replay import Cycles
from cascader.ethosu.search.choice import choose
from cascader.ethosu.search.frontier import FoundFrontier, frontier_of
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.request import Request, Run
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Choice, Task
from cascader.frontends.tasks import task_of
from cascader.search.workers import processes_for, workers

__all__ = ["chosen", "frontier", "schedule"]

_ALONE = Run()


def chosen(task: Task, request: Request, run: Run = _ALONE) -> Choice:
    """The schedule of a loaded task for the aim of its request: its budget, what is optimised, its effort."""
    with workers(processes_for(len(task.network.graph.parts), run.processes), takes_part=True, late=True) as executor:
        return choose(task, request, executor, run)


def schedule(request: Request, cycles: Cycles, run: Run = _ALONE) -> Choice:
    """The schedule for a request, with its replayed cycles and a lower bound of them.

    ``cycles`` gives the cycles of a lowered network; with more processes than one it is pickled. InputError if a name is unknown, the model
    is wrong, or nothing fits.

    >>> from cascader import ModelSource, Request, schedule
    >>> from npu_model.memory.timing_adapter import profile
    >>> from sim import quick_cycles
    >>> from validation.zoo import build
    >>> memory = profile("u55_high_end").memory_system()
    >>> asked = Request(ModelSource("tiny", build("tiny_residual")), "ethos-u55-128", memory, budget=8192)
    >>> found = schedule(asked, quick_cycles)
    >>> found.point.memory <= 8192, found.least_cycles <= found.point.cycles
    (True, True)
    """
    return chosen(task_of(request, cycles), request, run)


def frontier(request: Request, cycles: Cycles, run: Run = _ALONE) -> FoundFrontier:
    """The schedules of a request that no other one beats in bytes and replayed cycles, by ascending bytes, with bounds of both.

    The request's budget and aim do not matter. The arguments are those of :func:`schedule`. InputError if a name is unknown, or the
    model is wrong.
    """
    task = task_of(request, cycles)
    with workers(processes_for(len(task.network.graph.parts), run.processes), takes_part=True) as executor:
        everything = replace(EVERYTHING, thorough=request.thorough)
        found = search(explore(task, executor, run.show), everything, executor, run.show)
        return frontier_of(task, found, executor, show=run.show)
