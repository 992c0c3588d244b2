"""StripeProposals: plans that cover a CascaderGraph, every one that no other beats in memory and cycles, by dynamic programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cascader.graph.cascader_graph import CascaderGraph
from cascader.plan.pareto import pareto
from cascader.plan.stripe_plans import StripeOptions, StripePlan, StripeRates, all_plans
from npu_model.errors import InputError


@dataclass(frozen=True, slots=True)
class StripeProposal:
    """Plans in order of execution; ``memory`` is the most that one of them needs, ``cycles`` are the sum of theirs."""

    plans: tuple[StripePlan, ...]
    memory: int = 0
    cycles: int = 0

    def extended(self, plan: StripePlan) -> StripeProposal:
        """The proposal and then ``plan``."""
        return StripeProposal((*self.plans, plan), max(self.memory, plan.memory), self.cycles + plan.cycles)


def frontier(ending: Sequence[Sequence[StripePlan]]) -> tuple[StripeProposal, ...]:
    """All Pareto-optimal covers of parts 0 to n - 1 by plans, by ascending memory; ``ending[i]`` are those whose last part is i.

    Exact, as a cover is never improved by worse plans for its beginning: memory is the larger, cycles the sum. O(plans times
    the length of a frontier).
    """
    best: list[tuple[StripeProposal, ...]] = [(StripeProposal(()),)]
    for plans in ending:
        best.append(pareto(before.extended(plan) for plan in plans for before in best[plan.group.first]))
    return best[-1]


def propose(
    graph: CascaderGraph,
    limit: int,
    options: StripeOptions = StripeOptions(),  # noqa: B008
    rates: StripeRates = StripeRates(),  # noqa: B008
) -> StripeProposal:
    """The fastest proposal within ``limit`` bytes; InputError that names the smallest memory if there is none."""
    found = frontier(all_plans(graph, options, rates))
    fitting = [proposal for proposal in found if proposal.memory <= limit]
    if not fitting:
        raise InputError(
            f"{limit} bytes are too few for the graph: the smallest memory that these options reach is {found[0].memory} bytes."
        )
    return fitting[-1]
