"""Stall report: the cycles of every unit of a replay: busy, waiting by cause, and idle."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from sim.events import Cause, Unit
from sim.replay import NetworkReplay


class UnitStalls(Struct, frozen=True):
    """One unit's cycles: ``busy``, ``waits`` per cause (largest first) and ``idle``, the cycles without work.

    The three sum to NPU ACTIVE.
    """

    unit: Unit
    busy: int
    waits: tuple[tuple[Cause, int], ...]
    idle: int

    @property
    def waiting(self) -> int:
        """Cycles of all causes."""
        return sum(cycles for _, cycles in self.waits)

    @property
    def cycles(self) -> int:
        """The sum of busy, waiting and idle cycles."""
        return self.busy + self.waiting + self.idle


def stall_report(network: NetworkReplay) -> tuple[UnitStalls, ...]:
    """Every unit in pipeline order, over all Programs. Causes with equal cycles are in the order of :class:`Cause`."""
    busy: Counter[Unit] = Counter()
    waits: Counter[tuple[Unit, Cause]] = Counter()
    for replay in network.replays:
        busy.update(replay.busy)
        waits.update(replay.waits)
    report = []
    for unit in Unit:
        causes = [(cause, waits[unit, cause]) for cause in Cause if waits[unit, cause]]
        idle = network.cycles - busy[unit] - sum(cycles for _, cycles in causes)
        report.append(UnitStalls(unit, busy[unit], tuple(sorted(causes, key=lambda entry: -entry[1])), idle))
    return tuple(report)
