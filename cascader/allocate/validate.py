"""An independent judge of allocations: naive on purpose, it shares no code with the solver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cascader.allocate.problem import Problem, Solution


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a solution: a reason with the names of the buffers concerned.

    Reasons: ``bad count``, ``bad address``, ``bad alignment``, ``bad overlap``, ``bad peak``, ``bad capacity``.
    """

    reason: str
    buffers: tuple[str, ...] = ()


def _faults(problem: Problem, solution: Solution) -> Iterator[Fault]:
    buffers, addresses = problem.buffers, solution.addresses
    if len(buffers) != len(addresses):
        yield Fault("bad count")
        return
    peak = 0
    for i, a in enumerate(buffers):
        if addresses[i] < 0:
            yield Fault("bad address", (a.name,))
        if addresses[i] % a.alignment != 0:
            yield Fault("bad alignment", (a.name,))
        peak = max(peak, addresses[i] + a.size)
        for j, b in enumerate(buffers[:i]):
            apart_in_time = a.end <= b.start or b.end <= a.start
            apart_in_memory = addresses[i] + a.size <= addresses[j] or addresses[j] + b.size <= addresses[i]
            if not (apart_in_time or apart_in_memory):
                yield Fault("bad overlap", (b.name, a.name))
    if solution.peak != peak:
        yield Fault("bad peak")
    if problem.capacity is not None and peak > problem.capacity:
        yield Fault("bad capacity")


def validate(problem: Problem, solution: Solution) -> Fault | None:
    """The first fault of ``solution``, None if there is none. O(n squared): every pair of buffers is looked at."""
    return next(_faults(problem, solution), None)
