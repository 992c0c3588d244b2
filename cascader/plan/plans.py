"""Plans: part groups executed depth-first in stripes, each with the memory that it needs and the cycles that it takes.

A Plan (RFC 0037) is a group of consecutive parts, the requested stripe of its last part, and the constants that are staged in the cascade
memory for it. Tensors inside the group are rolling buffers of exactly the rows that are needed; forks and joins (residual sums,
concatenations) need nothing special, as a skip tensor stays until its last reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import Struct

from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_bytes import group_bytes
from cascader.plan.group_costs import CostModel, KnownCosts, staged_cycles, worth_staging
from cascader.plan.known_plans import KnownPlans, Lines, Windows
from cascader.plan.pareto import pareto
from cascader.plan.passing import PassingBytes
from cascader.plan.plan import Plan
from cascader.plan.proposals import PlanTable
from npu_model.native import native

_NATIVE = native("cascader")
_FIELDS = 7
"""Numbers of a plan in the compiled core: first part, bytes, cycles, cold cycles, stripe rows, inner rows, index into ``staging``."""


_NO_LINES = np.empty((0, _FIELDS), dtype=np.int64)
_MOST_SLICED = 40
"""The most parts of a group, also where several of them count as one."""


class PlanOptions(Struct, frozen=True):
    """Choice of the plans that are tried, each field a switch of its own.

    ``stripe_rows`` are the row counts that a group's last part is asked for. ``inner_rows`` limits the rows that earlier parts make at a
    time; these limits are tried in addition to no limit, only for the fewest rows of the last part. ``group_length`` is the most parts of a
    group. ``staging`` are the sizes in bytes up to which constants are staged (0: none). ``cascade`` off leaves single parts only,
    ``in_place`` off keeps results and operands apart.
    """

    stripe_rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    inner_rows: tuple[int, ...] = (1,)
    group_length: int = 24
    staging: tuple[int, ...] = (0, 2048, 4096, 8192, 16384, 40960, 1 << 30)
    cascade: bool = True
    in_place: bool = True


RowPlan = Plan[Group]
"""A plan of stripes of rows, depth-first."""


class _OpenBorders:
    """The borders between parts at which groups of at most so many bytes may begin and end."""

    def __init__(self, least: Sequence[int], within: int) -> None:
        """``least`` holds bytes that every group at the border after each part takes."""
        self._is_low = [size <= within for size in least]
        self._is_reached = [True] + [False] * len(least)
        self._within = within

    def may_end(self, firsts: range) -> bool:
        """Whether some group that begins with one of ``firsts`` and ends with the last of them may be in a proposal."""
        return self._is_low[firsts[-1]] and any(self._is_reached[firsts.start : firsts.stop])

    def note(self, last: int, lines: Lines) -> None:
        """Note the plans of the groups that end with a part."""
        firsts = lines[lines[:, 1] <= self._within, 0].tolist()
        self._is_reached[last + 1] = any(self._is_reached[first] for first in firsts)


def _up_to(limit: int, sizes: Mapping[int, int]) -> tuple[int, ...]:
    """The parts whose constants have at most ``limit`` bytes each."""
    return tuple(part for part, size in sizes.items() if size <= limit)


class Planner:
    """Makes the Pareto set of plans of every part group."""

    def __init__(
        self,
        scheduler: DepthFirstScheduler,
        cost: CostModel,
        options: PlanOptions,
        known: KnownCosts | None = None,
        known_plans: KnownPlans | None = None,
    ) -> None:
        """``known`` holds costs of stripes that others have computed.

        ``known_plans`` holds plans of other graphs. All parts of all graphs must have the same costs.
        """
        self.scheduler, self.graph = scheduler, scheduler.graph
        self.cost = cost
        self.options = options
        self._known = known or KnownCosts(cost, [part.rows for part in scheduler.graph.parts])
        self._known_plans = known_plans

    def plans(self, group: Group) -> tuple[RowPlan, ...]:
        """The group with each choice of staged constants; equivalent choices count once."""
        jobs, memory = self.scheduler.table(group), group_bytes(self.scheduler, group, in_place=self.options.in_place)
        sizes = worth_staging(jobs, self._known)
        return tuple(
            Plan(group, staged, memory + sum(sizes[part] for part in staged), *staged_cycles(jobs, self._known, staged))
            for staged in dict.fromkeys(_up_to(limit, sizes) for limit in self.options.staging)
        )

    def _stripe_choices(self, first: int, last: int) -> tuple[int, ...]:
        part = self.graph.parts[last]
        if first == last:
            return (part.rows,)
        if part.atomic:
            return tuple(rows for rows in self.options.stripe_rows if rows <= 8)
        return tuple(sorted({min(rows, part.rows) for rows in (*self.options.stripe_rows, part.rows)}))

    def _groups(self, first: int, last: int) -> Iterator[Group]:
        """The ways to make some parts as one group, without those that lead to the same jobs."""
        choices = self._stripe_choices(first, last)
        yield from (Group(first, last, rows) for rows in choices)
        known = {self.scheduler.table(Group(first, last, rows)).tobytes() for rows in choices[:1]} if first < last else set()
        for inner in self.options.inner_rows if known else ():
            group = Group(first, last, choices[0], inner)
            jobs = self.scheduler.table(group).tobytes()
            if jobs not in known:
                known.add(jobs)
                yield group

    def _firsts(self, last: int) -> range:
        """The first parts of the groups that end with ``last``: as far back as groups and segments reach."""
        first, parts = last, self.graph.parts
        length, least = (self.options.group_length, last + 1 - _MOST_SLICED) if self.options.cascade else (1, last)
        while first > max(0, least) and parts[first - 1].segment == parts[last].segment:
            # Slices that write over dead rows, one after the other, count as one part.
            length -= not (parts[first - 1].in_place is not None and parts[first - 1].outputs == parts[first].outputs)
            if not length:
                break
            first -= 1
        return range(first, last + 1)

    def _plans_ending(self, last: int) -> Iterator[RowPlan]:
        for first in self._firsts(last):
            found = [plan for group in self._groups(first, last) for plan in self.plans(group)]
            yield from dict.fromkeys(pareto(found) + pareto(found, cycles=lambda plan: plan.cold_cycles))

    def all_plans(self) -> tuple[tuple[RowPlan, ...], ...]:
        """For every part, the Pareto plans of the groups that end with it, group by group."""
        return tuple(tuple(self._plans_ending(last)) for last in range(len(self.graph.parts)))

    def table(self, within: int | None = None, until: int | None = None) -> PlanTable[Group]:
        """The plans of :meth:`all_plans` as a table, each made on demand.

        The table leaves out plans that no proposal of at most ``within`` bytes has, and those that end with part ``until`` or a later one.
        Without the compiled core all plans are made.
        """
        if _NATIVE is None:
            return PlanTable.of(self.all_plans()[:until])
        parts, cost = range(len(self.graph.parts)), self.cost
        facts = [
            self._known.begins[:-1].tolist(),
            [cost.constant_bytes(part) for part in parts],
            [cost.transfer_cycles(part) for part in parts],
        ]
        flat = np.array(facts, dtype=np.int64)
        passing = PassingBytes(self.scheduler)
        windows = None if self._known_plans is None else Windows(self.scheduler, self._known_plans, passing.sizes)
        open_ = None if within is None else _OpenBorders(passing.least(), within)
        found = []
        for last in parts[:until]:
            firsts = self._firsts(last)
            lines = self._lines_ending(flat, firsts, windows) if open_ is None or open_.may_end(firsts) else _NO_LINES
            found.append(lines)
            if open_ is not None:
                open_.note(last, lines)
        lines = np.concatenate([_NO_LINES, *found])
        begins = np.cumsum([0, *map(len, found)], dtype=np.int64)

        @cache
        def plan(number: int) -> RowPlan:
            first, memory, cycles, cold_cycles, rows, inner, choice = lines[number].tolist()
            group = Group(first, int(np.searchsorted(begins, number, side="right")) - 1, rows, inner)
            staged = _up_to(self.options.staging[choice], worth_staging(self.scheduler.table(group), self._known))
            return Plan(group, staged, memory, cycles, cold_cycles)

        return PlanTable(np.ascontiguousarray(lines[:, :4]), begins, plan)

    def _lines_ending(self, facts: Lines, firsts: range, windows: Windows | None) -> Lines:
        """Like :meth:`_plans_ending`, by the compiled core, for groups that begin with one of ``firsts`` and end with the last of them.

        ``facts`` holds where the parts' costs begin, and their constants' bytes and cycles. Plans of equal ``windows`` are made once.
        """
        last, options = firsts[-1], self.options
        rows = self._stripe_choices(firsts[0], last) if len(firsts) > 1 else ()
        alone = self._stripe_choices(last, last)

        def made() -> Lines:
            how = last, firsts[0], *alone, options.in_place
            few = [np.array(numbers, dtype=np.int64) for numbers in (options.staging, rows, options.inner_rows, how)]
            assert _NATIVE is not None  # noqa: S101  # whoever calls knows
            raw = _NATIVE.plans(self.scheduler.flat, facts, self._known.costs, *few, self._known.ask)
            return np.frombuffer(raw, dtype=np.int64).reshape(-1, _FIELDS)

        if windows is None:
            return made()
        return windows.lines(firsts[0], last, (options.staging, rows, options.inner_rows, alone, options.in_place), made)
