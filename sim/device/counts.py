"""PMU events over the time of one run: the number of each event by a cycle, up to all of them at the end.

The replay counts work and waits by operation. Here the counts of an operation come evenly between its issue and its end. Counts that belong
to no single operation (the command fetch, transactions) come evenly over the run. The last cycle has the replay's own counts.
"""

from __future__ import annotations

from bisect import bisect_right

from npu_model.cost.mac_activity import mac_activity
from npu_model.program import KernelOperation, OperationKind
from sim.events import Cause, Unit
from sim.replay import OperationReplay, Replay

_Piece = tuple[int, int, int, int]
"""First cycle, last cycle, events between them, and their operation (-1 for none)."""


def _of_operation(operation: OperationReplay, replay: Replay) -> dict[str, int]:
    """Events of one operation, under the names and rules of :meth:`sim.replay.Replay.pmu`."""
    busy, waits, op = operation.busy, operation.waits, operation.op
    found = {
        "AXI0_RD_DATA_BEAT_RECEIVED": operation.beats.axi0_read,
        "AXI0_WR_DATA_BEAT_WRITTEN": operation.beats.axi0_write,
        "AXI1_RD_DATA_BEAT_RECEIVED": operation.beats.axi1_read,
        "MAC_STALLED_BY_IB": waits.get((Unit.MAC, Cause.IB), 0),
        "MAC_STALLED_BY_WD": waits.get((Unit.MAC, Cause.WEIGHTS), 0),
        "MAC_STALLED_BY_ACC": waits.get((Unit.MAC, Cause.ACC), 0),
        "AO_ACTIVE": busy.get(Unit.AO, 0),
        "AO_STALLED_BY_ACC": waits.get((Unit.AO, Cause.ACC), 0),
        "AO_STALLED_BY_OB": waits.get((Unit.AO, Cause.OB), 0),
        "CC_STALLED_ON_BLOCKDEP": waits.get((Unit.IFM, Cause.BLOCKDEP), 0),
        "CC_STALLED_ON_SHRAM_RECONFIG": waits.get((Unit.IFM, Cause.SHRAM), 0),
    }
    if isinstance(op, KernelOperation):
        activity = mac_activity(op, replay.accelerator, replay.timing)
        found |= {"MAC_ACTIVE": activity.active, "MAC_DPU_ACTIVE": activity.dot_products}
        if Unit.MAC in busy:
            held = "MAC_STALLED_BY_WD" if op.kind is OperationKind.CONV_2D else "MAC_STALLED_BY_ACC"
            found[held] += busy[Unit.MAC] - activity.active
    return found


class _Curve:
    """A count that only grows, from pieces in which it grows evenly."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = sorted(piece for piece in pieces if piece[2])
        self._starts = [first for first, *_ in self._pieces]

    def at(self, cycle: int, operations: int) -> int:
        """Events of the first ``operations`` from the start to ``cycle``."""
        found = 0
        for first, last, events, index in self._pieces[: bisect_right(self._starts, cycle)]:
            if index >= operations:
                continue
            found += events if cycle >= last else events * (cycle - first) // (last - first)
        return found


class Counts:
    """The number of times that each event of a replay has happened by each cycle."""

    def __init__(self, replay: Replay) -> None:
        self._cycles = replay.cycles
        self._totals = replay.pmu()
        pieces: dict[str, list[_Piece]] = {name: [] for name in self._totals}
        for operation in replay.operations:
            for name, events in _of_operation(operation, replay).items():
                pieces[name].append((operation.issued, operation.finished, events, operation.index))
        for name, total in self._totals.items():
            rest = total - sum(events for _, _, events, _ in pieces[name])
            pieces[name].append((0, self._cycles, rest, -1))
        self._curves = {name: _Curve(found) for name, found in pieces.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The events that are counted."""
        return tuple(self._totals)

    def at(self, name: str, cycle: int, operations: int) -> int:
        """Events of this name and of the first ``operations`` from the start to ``cycle``; 0 for a name without a count."""
        curve = self._curves.get(name)
        return 0 if curve is None else curve.at(min(max(0, cycle), self._cycles), operations)
