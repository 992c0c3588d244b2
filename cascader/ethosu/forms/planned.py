"""Planned bytes: the fewest bytes of a network's plans, and the parts that hold that many, from plans without cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from cascader.ethosu.forms.layouts import dense_variants
from cascader.ethosu.network.homes import homed_forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.group_costs import JobTimes, KnownCosts
from cascader.plan.known_plans import KnownPlans
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import PlanTable, least_limit, propose, smallest_limit

T = TypeVar("T")


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
_DOUBLINGS = 3
"""Number of times that a limit of bytes is doubled before there is none."""
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


_LATELY: deque[tuple[Network, Sequence[Wanted], tuple[Network, ...]]] = deque(maxlen=8)
"""Networks whose layouts are kept, with their homes: a form in tiles is planned whole, and then up to its last tile."""


def _layouts(network: Network, homes: Sequence[Wanted]) -> tuple[Network, ...]:
    """The network in the dense layout of forms, in two variants unless they are equal, with tensors in their ``homes``."""
    found = next((made for one, wanted, made in _LATELY if one is network and wanted == homes), None)
    if found is None:
        found = tuple(next(homed_forms([dense], homes), dense) for dense in dense_variants(network, DEFAULT_OPTIONS.dense))
        _LATELY.append((network, homes, found))
    return found


def plans_within(network: Network, homes: Sequence[Wanted], most: int | None) -> Plans | None:
    """Like :func:`plans_at_peak`; None if the plans hold more than ``most`` bytes, which is found in less time."""
    best = None
    for placed in _layouts(network, homes):
        found = _plans(placed, most)
        if found is not None and (best is None or found.peak < best.peak):
            best, most = found, found.peak.size
    return best


def plans_at_peak(network: Network, homes: Sequence[Wanted] = ()) -> Plans:
    """The plans of few rows, without copies of constants.

    The network's tensors have the dense layout of forms, in the smaller of two variants, and live in their ``homes``.
    """
    found = plans_within(network, homes, None)
    assert found is not None  # noqa: S101  # any number of bytes suffices
    return found


def planned_peak(network: Network, homes: Sequence[Wanted] = ()) -> Peak:
    """The peak of :func:`plans_at_peak`."""
    return plans_at_peak(network, homes).peak


def planned_within(network: Network, homes: Sequence[Wanted], most: int | None) -> Peak | None:
    """The peak of :func:`plans_within`."""
    found = plans_within(network, homes, most)
    return None if found is None else found.peak


class Peaks:
    """The peaks of networks by a measure, which takes less time if it may leave out peaks of many bytes. Each peak is measured once."""

    def __init__(self, measure: Callable[[Network, Sequence[Wanted], int | None], Peak | None]) -> None:
        """``measure`` gives the peak of a network with some homes, or None if that has more than a number of bytes (None: any number)."""
        self._measure = measure
        self._known: dict[int, tuple[Network, Peak]] = {}

    def within(self, network: Network, homes: Sequence[Wanted], most: int | None) -> Peak | None:
        """The peak of a network; None if it has more than ``most`` bytes."""
        _, peak = self._known.get(id(network), (network, None))
        if peak is None:
            peak = self._measure(network, homes, most)
            self._known |= {} if peak is None else {id(network): (network, peak)}
        return None if peak is None or (most is not None and peak.size > most) else peak

    def of(self, network: Network, homes: Sequence[Wanted], about: int | None = None) -> Peak:
        """The peak of a network. It is found in less time if it has at most ``about`` bytes."""
        return _first_found(partial(self.within, network, homes), about)


def planned_bytes(network: Network, homes: Sequence[Wanted] = (), below: int | None = None) -> int:
    """Bytes of the arena of :func:`planned_peak`, or ``below`` if it does not have fewer."""
    for placed in _layouts(network, homes):
        below = planned_limit(placed, below)
    assert below is not None  # noqa: S101  # there is a layout
    return below


def planned_limit(placed: Network, below: int | None = None) -> int:
    """Bytes as in :func:`planned_bytes`, for a network whose tensors are in their homes."""
    most = None if below is None else below - 1
    found = _least_within(_planner(placed).table(most), most)
    found = below if found is None else found
    assert found is not None  # noqa: S101  # any number of bytes suffices
    return found


def planned_front(network: Network, parts: int, homes: Sequence[Wanted] = (), about: int | None = None) -> int:
    """Bytes as in :func:`planned_bytes`, for plans of the first ``parts`` parts alone, with the tensors that pass by them.

    They are found in less time if they are at most ``about`` so many.
    """
    planner = _planner(_layouts(network, homes)[-1])
    return _first_found(lambda most: _least_within(planner.table(most, parts), most), about)


def _first_found(found: Callable[[int | None], T | None], about: int | None) -> T:
    """The first result within a limit: ``about`` bytes, then twice as many, in the end any number (None)."""
    for most in (None,) if about is None else (*(about << doublings for doublings in range(_DOUBLINGS)), None):
        one = found(most)
        if one is not None:
            return one
    raise AssertionError  # Any number of bytes suffices.


def _least_within(table: PlanTable[Group], most: int | None) -> int | None:
    """The fewest bytes of a table's plans; None if they are more than ``most``."""
    size = smallest_limit(table) if most is None else least_limit(table)
    return None if size is None or (most is not None and size > most) else size


def _planner(placed: Network) -> Planner:
    graph, costs = row_graph(placed), _NoCosts()
    known = KnownCosts.alike(costs, [part.rows for part in graph.parts])
    return Planner(DepthFirstScheduler(graph), costs, _BY_BYTES, known, _KNOWN)


def _plans(placed: Network, within: int | None) -> Plans | None:
    planner = _planner(placed)
    table = planner.table(within)
    size = _least_within(table, within)
    if size is None:
        return None
    proposal, parts = propose(table, size), placed.graph.parts
    plans = () if proposal is None else proposal.plans
    highest = (plan.group for plan in plans if plan.memory == size)
    names = tuple(part.name for group in highest for part in parts[group.first : group.last + 1])
    return Plans(Peak(size, names), tuple(plan.group for plan in plans), planner.scheduler)
