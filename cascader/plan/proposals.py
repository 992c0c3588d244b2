"""Proposals: disjoint plans that cover the graph, the fastest for each memory limit, by dynamic programming."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Generic

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.plan.pareto import pareto
from cascader.plan.plan import G, Plan
from npu_model.errors import InputError
from npu_model.native import native

Numbers = npt.NDArray[np.int64]
_NATIVE = native("cascader")
_UNREACHED = 1 << 62
"""More bytes than any arena has; it replaces a limit if no plans cover the parts."""


class Proposal(Struct, Generic[G], frozen=True):
    """Plans in order of execution; ``memory`` is the largest of theirs, ``cycles`` the sum."""

    plans: tuple[Plan[G], ...]

    @property
    def memory(self) -> int:
        """Bytes of the plan that needs most; real addresses may need more."""
        return max((plan.memory for plan in self.plans), default=0)

    @property
    def cycles(self) -> int:
        """Estimated cycles."""
        return sum(plan.cycles for plan in self.plans)


class PlanTable(Struct, Generic[G], frozen=True, eq=False):
    """Plans as flat arrays, grouped by their last part.

    ``columns`` has a line for each plan, in their order: first part, memory, cycles, cold cycles; ``begins`` says where the plans of a part
    begin, and where the last plans end. ``plan`` makes the plan of a line.
    """

    columns: Numbers
    begins: Numbers
    plan: Callable[[int], Plan[G]]

    @staticmethod
    def of(ending: Sequence[Sequence[Plan[G]]]) -> PlanTable[G]:
        """The same plans as arrays; ``ending[i]`` holds the plans with last part i."""
        plans = tuple(plan for some in ending for plan in some)
        lines = [(plan.group.first, plan.memory, plan.cycles, plan.cold_cycles) for plan in plans]
        begins = np.cumsum([0, *(len(some) for some in ending)], dtype=np.int64)
        return PlanTable(np.array(lines, dtype=np.int64).reshape(-1, 4), begins, plans.__getitem__)

    @property
    def ending(self) -> tuple[tuple[Plan[G], ...], ...]:
        """All plans; item i holds the plans with last part i."""
        return tuple(tuple(map(self.plan, range(begin, end))) for begin, end in pairwise(self.begins.tolist()))

    @property
    def sizes(self) -> list[int]:
        """The bytes that plans need, ascending, each once."""
        # With indices, numpy does not need its masked arrays, whose import takes as long as a small search at a limit.
        found: list[int] = np.unique(self.columns[:, 1], return_index=True)[0].tolist()
        return found


def _table(plans: PlanTable[G] | Sequence[Sequence[Plan[G]]]) -> PlanTable[G]:
    return plans if isinstance(plans, PlanTable) else PlanTable.of(plans)


def propose(plans: PlanTable[G] | Sequence[Sequence[Plan[G]]], limit: int, cold: Fraction = Fraction(0)) -> Proposal[G] | None:
    """The fastest proposal whose plans each need at most ``limit`` bytes; None if there is none.

    In a sequence, item i holds the plans with last part i. ``cold`` is the part of the copies' cycles that the previous group is assumed
    not to hide: 0 trusts prefetching fully, 1 not at all. O(number of plans).
    """
    table = _table(plans)
    if _NATIVE is None:
        return propose_in_python(table.ending, limit, cold)
    asked = np.array([limit, *cold.as_integer_ratio()], dtype=np.int64)
    found = np.frombuffer(_NATIVE.propose(table.columns, table.begins, asked), dtype=np.int64).tolist()
    if not found:
        return None if len(table.begins) > 1 else Proposal(())
    return Proposal(tuple(table.plan(number) for number in reversed(found)))


def propose_in_python(ending: Sequence[Sequence[Plan[G]]], limit: int, cold: Fraction = Fraction(0)) -> Proposal[G] | None:
    """Like :func:`propose`, without the compiled core."""
    share, whole = cold.as_integer_ratio()
    best: list[int | None] = [0]
    choice: list[Plan[G] | None] = [None]
    for plans in ending:
        cycles, chosen = None, None
        for plan in plans:
            if plan.memory > limit or (before := best[plan.group.first]) is None:
                continue
            total = before + plan.cycles
            if share:
                total += share * (plan.cold_cycles - plan.cycles) // whole
            if cycles is None or total < cycles:
                cycles, chosen = total, plan
        best.append(cycles)
        choice.append(chosen)
    if best[-1] is None:
        return None
    covered: list[Plan[G]] = []
    end = len(ending)
    while end > 0:
        last = choice[end]
        assert last is not None  # noqa: S101  # a part with a finite cost has a plan
        covered.append(last)
        end = last.group.first
    return Proposal(tuple(reversed(covered)))


def least_limit(plans: PlanTable[G]) -> int | None:
    """Least limit for which there is a proposal: below it no plans of this class cover the graph. None if none ever do."""
    firsts, sizes = plans.columns[:, 0], plans.columns[:, 1]
    least = np.full(len(plans.begins), _UNREACHED, dtype=np.int64)
    least[0] = 0
    for part, (begin, end) in enumerate(pairwise(plans.begins.tolist())):
        least[part + 1] = np.maximum(least[firsts[begin:end]], sizes[begin:end]).min(initial=_UNREACHED)
    return None if least[-1] == _UNREACHED else int(least[-1])


def smallest_limit(plans: PlanTable[G] | Sequence[Sequence[Plan[G]]]) -> int:
    """Like :func:`least_limit`; InputError if no plans ever cover the graph."""
    table = _table(plans)
    found = least_limit(table)
    if found is None:
        last = next(part for part, (begin, end) in enumerate(pairwise(table.begins.tolist())) if begin == end)
        raise InputError(f"No plan of these options ends with part {last}, so that none cover the graph: allow longer groups.")
    return found


def frontier(plans: PlanTable[G] | Sequence[Sequence[Plan[G]]]) -> tuple[Proposal[G], ...]:
    """All Pareto-optimal proposals, by ascending memory: the fastest one for each size that a plan has.

    The result is exact, because the memory of a proposal is the memory of one of its plans. O(number of plans times that of their sizes).
    """
    table = _table(plans)
    found = (propose(table, limit) for limit in (0, *table.sizes))
    return pareto(proposal for proposal in found if proposal is not None)


def ladder(plans: PlanTable[G] | Sequence[Sequence[Plan[G]]], rungs: int) -> tuple[int, ...]:
    """Memory limits from the smallest to the largest useful one, geometrically spaced, each met exactly by some plan."""
    table = _table(plans)
    sizes = table.sizes
    low, high = smallest_limit(table), sizes[-1]
    first = max(1, low)  # Plans of tensors that all live outside the arena take no byte in it.
    step = (max(1, high) / first) ** (1 / max(1, rungs - 1))
    wanted = (first * step**i for i in range(rungs))
    return tuple(sorted({low, high} | {sizes[min(len(sizes) - 1, bisect_left(sizes, value))] for value in wanted}))
