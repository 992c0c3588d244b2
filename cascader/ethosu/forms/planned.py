"""Planned bytes: the fewest bytes of a network's plans, and the parts that hold that many, from plans without cycles."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cascader.ethosu.forms.layouts import dense_layouts, denser_layouts
from cascader.ethosu.network.homes import homed_forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_costs import JobTimes, KnownCosts
from cascader.plan.known_plans import KnownPlans
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import PlanTable, propose, smallest_limit


class _NoCosts:
    """A device on which nothing takes any time, so that its plans differ in their bytes alone."""

    def times(self, part: int, _start: int, _end: int) -> JobTimes:
        return JobTimes(part, 1, 1, 0, 0, 1, 0, 0, 0)

    def hidden(self, _part: int, _start: int, _end: int) -> int:
        return 0

    def constant_bytes(self, _part: int) -> int:
        return 0

    def transfer_cycles(self, _part: int) -> int:
        return 0

    def same_constants(self, part: int) -> int:
        return part


_BY_BYTES = PlanOptions(stripe_rows=(1, 2), staging=(0,))
_KNOWN = KnownPlans()
"""Plans of all networks without costs: the forms of a network differ in few parts."""


class Peak(Struct, frozen=True, order=True):
    """The fewest bytes of some plans of a network, and the names of the parts in the plans that hold that many."""

    size: int
    parts: tuple[str, ...]


class Plans(Struct, frozen=True):
    """The groups of the plans of a network that hold the fewest bytes, their ``peak``, and their scheduler."""

    peak: Peak
    groups: tuple[Group, ...]
    scheduler: DepthFirstScheduler


def plans_at_peak(network: Network, homes: Sequence[Wanted] = ()) -> Plans:
    """The plans of few rows, without copies of constants.

    The network's tensors have the dense layout of forms, in the smaller of two variants, and live in their ``homes``.
    """
    layouts = dense_layouts(network, DEFAULT_OPTIONS.dense), denser_layouts(network)
    different = layouts[:1] if layouts[1].graph == layouts[0].graph else layouts
    return min((_plans(next(homed_forms([dense], homes), dense)) for dense in different), key=lambda one: one.peak)


def planned_peak(network: Network, homes: Sequence[Wanted] = ()) -> Peak:
    """The peak of :func:`plans_at_peak`."""
    return plans_at_peak(network, homes).peak


def planned_bytes(network: Network, homes: Sequence[Wanted] = ()) -> int:
    """Bytes of the arena of :func:`planned_peak`."""
    return planned_peak(network, homes).size


def planned_limit(placed: Network) -> int:
    """Bytes as in :func:`planned_bytes`, for a network whose tensors are in their homes."""
    return smallest_limit(_table(placed))


def planned_front(network: Network, parts: int, homes: Sequence[Wanted] = ()) -> int:
    """Bytes as in :func:`planned_bytes`, for plans of the first ``parts`` parts alone, with the tensors that pass by them."""
    dense = denser_layouts(network)
    table = _table(next(homed_forms([dense], homes), dense))
    least = [0]
    for part in range(parts):
        plans = table.columns[table.begins[part] : table.begins[part + 1], :2].tolist()
        least.append(min(max(least[first], memory) for first, memory in plans))
    return least[parts]


def _table(placed: Network) -> PlanTable[Group]:
    return _planner(placed).table()


def _planner(placed: Network) -> Planner:
    graph, costs = row_graph(placed), _NoCosts()
    known = KnownCosts.alike(costs, [part.rows for part in graph.parts])
    return Planner(DepthFirstScheduler(graph), costs, _BY_BYTES, known, _KNOWN)


def _plans(placed: Network) -> Plans:
    planner = _planner(placed)
    table = planner.table()
    size = smallest_limit(table)
    proposal, parts = propose(table, size), placed.graph.parts
    plans = () if proposal is None else proposal.plans
    highest = (plan.group for plan in plans if plan.memory == size)
    names = tuple(part.name for group in highest for part in parts[group.first : group.last + 1])
    return Plans(Peak(size, names), tuple(plan.group for plan in plans), planner.scheduler)
