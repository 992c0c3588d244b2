"""Room for copies: whether an arena holds the copies of a group beside what is live, wherever they lie.

A copy is there from the first job that reads it to the last one. At each job the live bytes of all tensors and of all such copies have to
fit; addresses may need more.
"""

from __future__ import annotations

from functools import cache

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.search.byte_bound import job_bytes
from cascader.plan.depth_first import Group
from cascader.plan.group_bytes import Steps, group_live


class ProofRoom:
    """Room for the copies of one form's groups in an arena of ``budget`` bytes (None: any number)."""

    def __init__(self, plans: Cascader, budget: int | None) -> None:
        self._plans = plans
        self.budget = budget
        self.holds = cache(self._holds)
        self.live = cache(self._live)

    def never(self) -> frozenset[int]:
        """Parts whose constants find no room beside what one of their jobs reads and makes, whatever the groups are."""
        sizes, budget = map(self._plans.cost.constant_bytes, range(len(self._plans.graph.parts))), self.budget
        if budget is None:
            return frozenset()
        return frozenset(part for part, size in enumerate(sizes) if size and size + job_bytes(self._plans.scheduler, part) > budget)

    def _live(self, group: Group) -> Steps:
        """Bytes of tensors that are live at each job of a group, whatever the groups beside it are."""
        return group_live(self._plans.scheduler, group, in_place=self._plans.options.plans.in_place)

    def _holds(self, group: Group, copied: frozenset[int], shares: bool) -> bool:  # noqa: FBT001  # cached, by place
        """Whether the arena holds the copies of the parts in ``copied``, each for all parts with its constants if it ``shares``."""
        if self.budget is None:
            return True
        held = self._live(group).copy()
        parts = self._plans.scheduler.table(group)[:, 0].tolist()
        for source in copied:
            steps = [step for step, part in enumerate(parts) if self._plans.copy_sets.source(part, shares=shares) == source]
            if steps:
                held[steps[0] : steps[-1] + 1] += self._plans.cost.constant_bytes(source)
        return bool(held.max() <= self.budget)
