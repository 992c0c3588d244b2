"""The exhaustive search of a network of few parts: every schedule of a class is made and judged, or none if there are too many."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import chain, combinations

from cascader.draft.draft import Draft
from cascader.draft.trials import Staged
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.search.best import Best
from cascader.ethosu.search.divisions import Divisions
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.search import SearchSpace, answers
from cascader.ethosu.search.task import Progress, Proof, Replay

MOST_PARTS = 10
"""The most parts of a network's smallest form for an exhaustive search: counting the schedules of larger ones takes long."""

MOST_SCHEDULES = 40_000
"""The most schedules of a form's class for an exhaustive search: some fifty seconds of one processor."""


def copy_sets(plans: Cascader) -> Iterator[tuple[Staged, bool]]:
    """Every set of parts whose constants are copied, and whether parts with the same constants share one copy.

    Sets are shared only where one copy serves several parts: otherwise they are sets of single copies.
    """
    sets = plans.copy_sets
    parts = [part for part in range(len(plans.graph.parts)) if plans.cost.constant_bytes(part)]
    yield from ((chosen, False) for chosen in _subsets(parts))
    if sets.shares:
        served = [sets.source(part, shares=True) for part in parts]
        yield from ((one, True) for one in _subsets(list(dict.fromkeys(served))) if any(served.count(part) > 1 for part in one))


def _subsets(parts: list[int]) -> Iterator[Staged]:
    return map(frozenset, chain.from_iterable(combinations(parts, count) for count in range(len(parts) + 1)))


def every_draft(plans: Cascader, budget: int | None) -> Iterator[Draft | None]:
    """The drafts of all divisions with all sets of copies in ``budget`` bytes (None: any number), and None after the drafts of each.

    A division with a set of copies has several drafts if the copies find room in several ways, and none if they find no room.
    """
    chosen = list(copy_sets(plans))
    for groups in Divisions(plans).all_groups():
        room = plans.copy_sets.room(groups) if budget is None else budget
        fits = plans.copy_sets.fits(groups, room)
        for staged, shares in chosen:
            if fits:
                yield from map(plans.in_blocks, plans.copy_sets.drafts(groups, staged, room, shares=shares))
            yield None


def search_whole(form: Form, budget: int | None, cycles: int, judge: Replay, most: int) -> tuple[Proof, tuple[Draft, int] | None]:
    """The proof of a form whose class is searched whole, and its fastest schedule if that takes fewer than ``cycles``.

    Nothing is searched if the class has more than ``most`` schedules.
    """
    plans, asked = form.cascader, form.judge(judge)
    members = Divisions(plans).count(0) * sum(1 for _ in copy_sets(plans))
    if members > most:
        return Proof(members, 0, 0, 0, complete=False), None
    found: tuple[Draft, int] | None = None
    known: set[object] = set()
    for draft in every_draft(plans, budget):
        if draft is None or draft.runs in known or (budget is not None and draft.memory > budget):
            continue
        known.add(draft.runs)
        taken = asked.cycles(draft)
        if taken < cycles:
            cycles, found = taken, (draft, taken)
    return Proof(members, len(known), members, cycles, complete=True), found


def has_few_parts(explored: SearchSpace) -> bool:
    """Whether a network has a form whose class may be small enough."""
    return min(len(form.network.graph.parts) for form in explored.forms) <= MOST_PARTS


def search_classes(
    explored: SearchSpace, best: Best, fastest: Replayed, executor: Executor, show: Progress, most: int = MOST_SCHEDULES
) -> tuple[Replayed, Proof]:
    """The fastest known draft once the classes of all forms are searched, and what the searches prove together.

    All forms begin with the same cycles, so no answer depends on how many forms run at once.
    """
    budget, judge, begin = explored.useful(best.budget), best.task.replay, fastest.cycles
    asked = [executor.submit(search_whole, form, budget, begin, judge, most) for form in explored.forms]
    proofs = []
    for form, (proof, found) in zip(explored.forms, answers(asked, "Searching everything: {} of {} forms", show), strict=True):
        proofs.append(proof)
        if found is not None and found[1] < fastest.cycles:
            fastest = Replayed(form, *found)
            best.take(fastest)
    members, replayed, tried = (sum(getattr(one, name) for one in proofs) for name in ("members", "replayed", "tried"))
    complete = all(proof.complete for proof in proofs)
    return fastest, Proof(members, replayed, tried, fastest.cycles if complete else best.least_cycles or 0, complete)
