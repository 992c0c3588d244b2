"""The proof of one form: what may be faster than a schedule that is known is replayed, and all else is bounded from below.

The class of schedules is stated in docs/proof.md: each division into groups, with each set of copies that finds room. Its members are
ruled out by the least cycles of their jobs, group by group; what is left is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from heapq import heappop, heappush
from itertools import repeat
from typing import NamedTuple

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.draft.group_moves import Groups
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.judge.replay import Replay
from cascader.ethosu.proof.copy_room import ProofRoom
from cascader.ethosu.proof.least_times import LeastTimes
from cascader.ethosu.proof.state import NO_REST, NO_WAY, ProofState, Rest, Staged
from cascader.ethosu.search.divisions import Divisions
from cascader.ethosu.search.proven import DEFAULT_LIMITS, MOST_PARTS, Limits, Proof
from cascader.plan.depth_first import Group, StripeJob
from npu_model.memory.system import MemorySystem


class Proven(Struct, frozen=True):
    """A proof of one form, and what it has found that is faster than what was known, with its replayed cycles (None: nothing is)."""

    proof: Proof
    found: tuple[Draft, int] | None = None


Chosen = dict[int, bool]
"""Parts, and of each whether its constants are copied."""


class Member(NamedTuple):
    """A member of the class: a division with a set of copies, of the parts so far."""

    groups: Groups
    chosen: tuple[tuple[int, bool], ...]
    shares: bool

    @property
    def staged(self) -> Staged:
        """The parts whose constants are copied."""
        return frozenset(part for part, choice in self.chosen if choice)


class _OutOfSteps(Exception):  # noqa: N818  # no error: the proof ends
    """A limit is reached."""


@mutable(slots=True)
class _Search:
    """A proof on its way; ``cycles`` are those of the fastest that is known."""

    plans: Cascader
    times: LeastTimes
    divisions: Divisions
    budget: int | None
    judge: Judge
    limits: Limits
    cycles: int
    room: ProofRoom
    found: tuple[Draft, int] | None = None
    steps: int = 0
    replayed: int = 0
    known: set[tuple[object, ...]] = field(default_factory=set)
    fitting: dict[Groups, bool] = field(default_factory=dict)
    rest: list[Rest] = field(default_factory=list)
    """Cycles that the parts from each one on take at least, in any division, from the moment on at which each unit is free."""
    left: dict[tuple[Group, int], Rest] = field(default_factory=dict)
    """The same of the jobs of a group from one of them on, and of the parts behind it."""

    def look_ahead(self) -> int:
        """Work out the rest, from the last part to the first; the cycles that all parts take at least.

        Of a form of few parts its steps are not counted, so that a bound is known whatever other forms have taken of the limits.
        """
        count = len(self.plans.graph.parts)
        after = self.times.after if count <= MOST_PARTS else self._after
        self.rest = [NO_REST] * (count + 1)
        for first in range(count - 1, -1, -1):
            for group in self.divisions.groups(first):
                ways = [(self.divisions.jobs(group), group.last + 1, self.rest[group.last + 1])]
                self.left[group, 0] = self.times.rest(first, ways, after, self.divisions.last_job(first))
            self.rest[first] = Rest._make(map(min, *(self.left[group, 0] for group in self.divisions.groups(first)), NO_WAY))
        return self.rest[0].load

    def _after(
        self, state: ProofState, jobs: Sequence[StripeJob], staged: Staged | None = None, live: Iterable[int] = repeat(0)
    ) -> ProofState:
        if self.steps + len(jobs) > self.limits.steps:
            raise _OutOfSteps
        self.steps += len(jobs)
        return self.times.after(state, jobs, staged, live)

    def open_members(self) -> Iterator[tuple[int, Member]]:
        """Members that may take fewer cycles than are known, with their bounds, the least first: divisions, each with a set of copies.

        A division grows group by group, with the constants of its parts copied or not. The one of which least is known goes on, so that its
        bound is one of all that is left, too. Then what is yielded has no groups.
        """
        count, number = len(self.plans.graph.parts), 0
        heap: list[tuple[int, int, int, ProofState, Member]] = []
        for shares in (False, True) if self.plans.copy_sets.shares else (False,):
            heap.append((self.rest[0].load, count, len(heap), self.times.begin(), Member((), (), shares)))
        number = len(heap)
        while heap:
            bound, left, _, state, member = heappop(heap)
            if bound >= self.cycles:
                return
            yield bound, member if not left else member._replace(groups=())
            first = count - left
            for group in self.divisions.groups(first) if left else ():
                if self.budget is not None and self.divisions.least_bytes(group) > self.budget:
                    continue
                end = group.last + 1
                if self.times.whole(state, end, self.left[group, 0]) >= self.cycles:
                    continue
                for after, chosen in self._ways(group, 0, state, dict(member.chosen), shares=member.shares):
                    whole = max(bound, self.times.whole(after, end, self.rest[end]))
                    if whole < self.cycles:
                        number += 1
                        grown = Member((*member.groups, group), tuple(chosen.items()), member.shares)
                        # Of equal bounds the division of fewest parts left comes first.
                        heappush(heap, (whole, count - end, number, after, grown))

    def _ways(self, group: Group, begin: int, state: ProofState, chosen: Chosen, *, shares: bool) -> Iterator[tuple[ProofState, Chosen]]:
        """The states behind a group's jobs, those from ``begin`` on made with their parts' constants copied or not.

        ``chosen`` says of the parts so far whether they are. What is copied has room beside the tensors.
        """
        sets, jobs = self.plans.copy_sets, self.divisions.jobs(group)
        for at in range(begin, len(jobs)):
            job = jobs[at]
            source = sets.source(job.part, shares=shares)
            if self.plans.cost.constant_bytes(job.part) and source not in chosen:
                if self.times.whole(state, group.last + 1, self._left(group, at)) >= self.cycles:
                    return
                for choice in (True, False):
                    more = chosen | {source: choice}
                    if not choice or self.room.holds(group, frozenset(part for part, copied in more.items() if copied), shares):
                        yield from self._ways(group, at, state, more, shares=shares)
                return
            staged = frozenset([job.part]) if chosen.get(source) else frozenset[int]()
            if not staged and self.times.read(state, job) >= self.cycles:
                return
            state = self._after(state, (job,), staged, (int(self.room.live(group)[at]),))
            if state.cycles >= self.cycles:
                return
        yield state, chosen

    def _left(self, group: Group, begin: int) -> Rest:
        """Cycles that a group's jobs from ``begin`` on and all parts behind take at least, from the moment on at which a unit is free.

        These are worked out when they are asked for first.
        """
        if (group, begin) not in self.left:
            end = group.last + 1
            ways = [(self.divisions.jobs(group)[begin:], end, self.rest[end])]
            before = self.divisions.jobs(group)[begin - 1] if begin else self.divisions.last_job(group.first)
            self.left[group, begin] = self.times.rest(group.first, ways, self._after, before)
        return self.left[group, begin]

    def _is_own(self, chosen: Staged, *, shares: bool) -> bool:
        """Whether a set is no other way of another one: copies are shared only where one of them serves several parts."""
        parts = range(len(self.plans.graph.parts))
        served = [self.plans.copy_sets.source(part, shares=True) for part in parts if self.plans.cost.constant_bytes(part)]
        return not shares or any(served.count(part) > 1 for part in chosen)

    def replay(self, member: Member) -> None:
        """Replay a division with a set of copies, in each way in which these find room; one that is not whole yet has none."""
        groups, sets = member.groups, self.plans.copy_sets
        if not groups or not self._is_own(member.staged, shares=member.shares):
            return
        budget = sets.room(groups) if self.budget is None else self.budget
        if self.fits(groups, budget):
            for draft in sets.drafts(groups, member.staged, budget, shares=member.shares):
                self._replayed(self.plans.in_blocks(draft))

    def fits(self, groups: Groups, budget: int) -> bool:
        """Whether addresses are found for some groups' tensors."""
        if groups not in self.fitting:
            self.fitting[groups] = self.plans.copy_sets.fits(groups, budget)
        return self.fitting[groups]

    def _replayed(self, draft: Draft) -> None:
        if draft.runs in self.known or (self.budget is not None and draft.memory > self.budget):
            return
        self.known.add(draft.runs)
        if self.replayed == self.limits.replays:
            raise _OutOfSteps
        self.replayed += 1
        cycles = self.judge.cycles(draft)
        if cycles < self.cycles:
            self.cycles, self.found = cycles, (draft, cycles)

    def members(self) -> int:
        """Divisions, each with every set of copies."""
        sets, parts = self.plans.copy_sets, [part for part in range(len(self.plans.graph.parts)) if self.plans.cost.constant_bytes(part)]
        served = [sets.source(part, shares=True) for part in parts]
        sources = set(served)
        alone = sum(served.count(source) == 1 for source in sources)
        shared = (1 << len(sources)) - (1 << alone)
        return self.divisions.count(0) * ((1 << len(parts)) + shared)


def prove(plans: Cascader, system: MemorySystem, budget: int | None, cycles: int, judge: Replay, limits: Limits = DEFAULT_LIMITS) -> Proven:
    """Replay all schedules of a form's class within ``budget`` bytes (None: any number) that may take fewer than so many ``cycles``.

    Divisions whose jobs take least are replayed first, so that the others are compared with what these have shown.
    """
    room, judged = ProofRoom(plans, budget), Judge(plans.network, plans.accelerator, judge)
    search = _Search(plans, LeastTimes(plans, system, room), Divisions(plans), budget, judged, limits, cycles, room)
    least, complete = 0, False
    try:
        least = search.look_ahead()
        for bound, member in search.open_members():
            least = bound
            search.replay(member)
        least, complete = search.cycles, True
    except _OutOfSteps:
        pass
    proof = Proof(search.members(), search.replayed, search.steps, min(least, search.cycles), complete)
    return Proven(proof, search.found)
