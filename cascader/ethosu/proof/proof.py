"""The proof of one form: what may be faster than a schedule that is known is replayed, and all else is bounded from below.

The class of schedules is stated in docs/search.md: each division into groups, with each set of copies that finds room. Its members are
ruled out by the least cycles of their jobs, division by division and then set by set; what is left is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from heapq import heappop, heappush

from cascader.ethosu.cascade import Candidate, Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.proof.divisions import Divisions
from cascader.ethosu.proof.least_times import LeastTimes, Staged, State
from cascader.ethosu.proof.result import MOST_PARTS, Limits, Proof
from cascader.ethosu.search.task import Replay
from cascader.plan.depth_first import StripeJob
from cascader.search.local_moves import Groups
from npu_model.memory.system import MemorySystem
from npu_model.values import dataclass

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Proven:
    """A proof of one form, and what it has found that is faster than what was known, with its replayed cycles (None: nothing is)."""

    proof: Proof
    found: tuple[Candidate, int] | None = None


class _OutOfSteps(Exception):  # noqa: N818  # no error: the proof ends
    """A limit is reached."""


@mutable(slots=True)
class _Search:
    """A proof on its way; ``cycles`` are those of the fastest that is known."""

    plans: Cascader
    times: LeastTimes
    divisions: Divisions
    budget: int | None
    judge: Replay
    limits: Limits
    cycles: int
    found: tuple[Candidate, int] | None = None
    steps: int = 0
    replayed: int = 0
    known: set[tuple[object, ...]] = field(default_factory=set)
    rest: list[int] = field(default_factory=list)
    """Cycles that the parts from each one on take at least, in any division, from the moment on at which the input load is free."""

    def look_ahead(self) -> int:
        """Work out the rest, from the last part to the first; the cycles that all parts take at least.

        Of a form of few parts its steps are not counted, so that a bound is known whatever other forms have taken of the limits.
        """
        count = len(self.plans.graph.parts)
        after = self.times.after if count <= MOST_PARTS else self._after
        self.rest = [0] * (count + 1)
        for first in range(count - 1, -1, -1):
            begun = self.times.begin(first)
            self.rest[first] = min(
                self.times.whole(after(begun, self.divisions.jobs(group)), group.last + 1, self.rest[group.last + 1])
                for group in self.divisions.groups(first)
            )
        return self.rest[0]

    def _after(self, state: State, jobs: Sequence[StripeJob], staged: Staged | None = None) -> State:
        if self.steps + len(jobs) > self.limits.steps:
            raise _OutOfSteps
        self.steps += len(jobs)
        return self.times.after(state, jobs, staged)

    def open_divisions(self) -> Iterator[tuple[int, Groups]]:
        """The divisions that may take fewer cycles than are known, with their bounds, the least bound first.

        A division grows group by group. The one of which least is known goes on, so that its bound is one of all that is left, too.
        """
        count, number = len(self.plans.graph.parts), 0
        heap: list[tuple[int, int, int, State, Groups]] = [(self.rest[0], count, number, self.times.begin(), ())]
        while heap:
            bound, left, _, state, groups = heappop(heap)
            if bound >= self.cycles:
                return
            yield bound, () if left else groups
            first = groups[-1].last + 1 if groups else 0
            for group in self.divisions.groups(first) if first < count else ():
                if self.budget is not None and self.divisions.least_bytes(group) > self.budget:
                    continue
                after, end, number = self._after(state, self.divisions.jobs(group)), group.last + 1, number + 1
                whole = max(bound, self.times.whole(after, end, self.rest[end]))
                if whole < self.cycles:
                    # Of equal bounds the division of fewest parts left comes first.
                    heappush(heap, (whole, count - end, number, after, (*groups, group)))

    def _open_sets(self, groups: Groups, *, shares: bool) -> list[tuple[int, Staged]]:
        """The sets of copies with which groups may take fewer cycles than are known, with their bound; the least bound first."""
        jobs = [job for group in groups for job in self.divisions.jobs(group)]
        found = self._sets(jobs, self.times.begin(), {}, shares=shares)
        return sorted(((bound, chosen) for bound, chosen in found), key=lambda one: (one[0], len(one[1]), sorted(one[1])))

    def _sets(self, jobs: Sequence[StripeJob], state: State, copied: dict[int, bool], *, shares: bool) -> Iterator[tuple[int, Staged]]:
        """The sets that go on from a state before some jobs; ``copied`` says of each part's constants so far whether they are."""
        sets = self.plans.copy_sets
        for at, job in enumerate(jobs):
            source = sets.source(job.part, shares=shares)
            if self.times.constants(job.part) and source not in copied:
                for choice in (True, False):
                    yield from self._sets(jobs[at:], state, copied | {source: choice}, shares=shares)
                return
            state = self._after(state, (job,), frozenset([job.part]) if copied.get(source) else frozenset())
            if state.cycles >= self.cycles:
                return
        yield state.cycles, frozenset(part for part, choice in copied.items() if choice)

    def _is_own(self, chosen: Staged, *, shares: bool) -> bool:
        """Whether a set is no other way of another one: copies are shared only where one of them serves several parts."""
        parts = range(len(self.plans.graph.parts))
        served = [self.plans.copy_sets.source(part, shares=True) for part in parts if self.times.constants(part)]
        return not shares or any(served.count(part) > 1 for part in chosen)

    def replay(self, groups: Groups) -> None:
        """Replay a division with every set of copies that may make it faster than what is known; one that is not whole yet has none."""
        if not groups:
            return
        sets = self.plans.copy_sets
        budget = sets.room(groups) if self.budget is None else self.budget
        if not sets.fits(groups, budget):
            return
        for shares in (False, True) if sets.shares else (False,):
            for bound, chosen in self._open_sets(groups, shares=shares):
                if bound >= self.cycles or not self._is_own(chosen, shares=shares):
                    continue
                for draft in sets.drafts(groups, chosen, budget, shares=shares):
                    self._replayed(self.plans.realise(draft))

    def _replayed(self, candidate: Candidate) -> None:
        made = candidate.schedule
        key = made.jobs, made.buffers, made.copies
        if key in self.known or (self.budget is not None and candidate.memory > self.budget):
            return
        self.known.add(key)
        if self.replayed == self.limits.replays:
            raise _OutOfSteps
        self.replayed += 1
        cycles = self.judge(lower(made, checked=False))
        if cycles < self.cycles:
            self.cycles, self.found = cycles, (candidate, cycles)

    def members(self) -> int:
        """Divisions, each with every set of copies."""
        sets, parts = self.plans.copy_sets, [part for part in range(len(self.plans.graph.parts)) if self.times.constants(part)]
        served = [sets.source(part, shares=True) for part in parts]
        sources = set(served)
        alone = sum(served.count(source) == 1 for source in sources)
        shared = (1 << len(sources)) - (1 << alone)
        return self.divisions.count(0) * ((1 << len(parts)) + shared)


def prove(plans: Cascader, system: MemorySystem, budget: int | None, cycles: int, judge: Replay, limits: Limits = DEFAULT_LIMITS) -> Proven:
    """Replay all schedules of a form's class within ``budget`` bytes (None: any number) that may take fewer than so many ``cycles``.

    Divisions whose jobs take least are replayed first, so that the others are compared with what these have shown.
    """
    search = _Search(plans, LeastTimes(plans, system), Divisions(plans), budget, judge, limits, cycles)
    least, complete = 0, False
    try:
        least = search.look_ahead()
        for bound, groups in search.open_divisions():
            least = bound
            search.replay(groups)
        least, complete = search.cycles, True
    except _OutOfSteps:
        pass
    proof = Proof(search.members(), search.replayed, search.steps, min(least, search.cycles), complete)
    return Proven(proof, search.found)
