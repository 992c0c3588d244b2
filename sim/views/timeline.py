"""Timeline: a replay as text, one row per unit and one column per cycle or span of cycles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from npu_model.printable import printable
from npu_model.program import DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div
from sim.events import Event, Unit, Wait

WAITING = "."
IDLE = " "
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OTHER = "+"
"""Mark of the command processor's work for waits and control commands."""


@dataclass(frozen=True, slots=True)
class _Activity:
    """Cycles ``start`` to ``end`` of a unit, drawn with ``mark``."""

    start: int
    end: int
    mark: str


class TimelineRecorder:
    """A listener that draws the Program that it heard last.

    Every operation has a letter (A to Z, then A again); a unit that waits shows a dot, an idle one nothing. A column that
    covers several cycles shows what took most of them; of equals, what came first.
    """

    def __init__(self) -> None:
        self._marks: dict[int, str] = {}
        self._legend: list[str] = []
        self._activities: dict[Unit, list[_Activity]] = {}

    def on_start(self, program: Program) -> None:
        """A Program begins: the last one is forgotten."""
        works = [(i, op) for i, op in enumerate(program.operations) if isinstance(op, (KernelOperation, DmaOperation))]
        self._marks = {index: _LETTERS[n % len(_LETTERS)] for n, (index, _) in enumerate(works)}
        self._legend = [f"{self._marks[index]} = #{index} {_describe(op)} {printable(program.name(index))}".rstrip() for index, op in works]
        self._activities = {unit: [] for unit in Unit}

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        mark = WAITING if isinstance(event, Wait) else self._marks.get(event.operation, _OTHER)
        self._activities[event.unit].append(_Activity(event.start, event.end, mark))

    def text(self, columns: int = 100) -> str:
        """The drawing, at most ``columns`` wide beside the units' names, and the legend."""
        cycles = max((a.end for row in self._activities.values() for a in row), default=0)
        scale = max(1, ceil_div(cycles, columns))
        width = max(len(unit.value) for unit in Unit)
        lines = [f"{'cycle':>{width}} |{_ruler(ceil_div(cycles, scale), scale)}|"]
        lines += [f"{unit.value:>{width}} |{_row(row, ceil_div(cycles, scale), scale)}|" for unit, row in self._activities.items()]
        return "\n".join([*lines, f"{cycles} cycles, {scale} a column", *self._legend]) + "\n"


def _describe(op: KernelOperation | DmaOperation) -> str:
    if isinstance(op, DmaOperation):
        return f"DMA {op.length} bytes"
    return f"{op.mnemonic} {op.ofm.shape} block {op.block}"


def _ruler(columns: int, scale: int) -> str:
    """Every tenth column's first cycle, where there is room for the number."""
    text = ""
    for column in range(0, columns, 10):
        if len(text) <= column:
            text = f"{text:<{column}}{column * scale} "
    return f"{text:<{columns}}"[:columns]


def _row(activities: list[_Activity], columns: int, scale: int) -> str:
    shares: list[Counter[str]] = [Counter() for _ in range(columns)]
    for activity in activities:
        for column in range(activity.start // scale, ceil_div(activity.end, scale)):
            overlap = min(activity.end, (column + 1) * scale) - max(activity.start, column * scale)
            shares[column][activity.mark] += overlap
    return "".join(_mark(share, scale) for share in shares)


def _mark(share: Counter[str], scale: int) -> str:
    """The mark with most cycles of a column; idle if less than the idle rest."""
    mark, cycles = max(share.items(), key=lambda entry: entry[1], default=(IDLE, 0))
    return mark if cycles >= scale - share.total() else IDLE
