"""Timeline: a replay as text, one row per unit and one column per cycle or span of cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from npu_model.printable import printable
from npu_model.program import DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div
from sim.events import Event, Unit, Wait

WAITING = "."
IDLE = " "
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OTHER = "+"
"""Mark for waits and control commands in the command processor."""

_SHORTEST_NAME = 12
"""Characters of a layer's name that the legend shows even in a narrow drawing."""

LABELS = max(len(unit.value) for unit in Unit) + len(" ||")
"""Characters of a line in addition to its columns."""


class CycleWindow(Struct, frozen=True):
    """Cycles of a replay to draw: from ``first`` up to ``last``, None for the end."""

    first: int = 0
    last: int | None = None


WHOLE = CycleWindow()
"""All cycles."""


class _Activity(Struct, frozen=True):
    """Cycles ``start`` to ``end`` of a unit, on behalf of an operation or (None) waiting."""

    start: int
    end: int
    operation: int | None


Short: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Function that shortens the names of all operations of a Program, in their order."""


def _heads(names: Sequence[str]) -> Sequence[str]:
    """Each name up to the first ";"."""
    return [name.partition(";")[0] for name in names]


class _Drawing:
    """Drawing of one Program: the marks and names of its operations, and the activities of every unit."""

    def __init__(self, program: Program, short: Short) -> None:
        works = [(i, op) for i, op in enumerate(program.operations) if isinstance(op, (KernelOperation, DmaOperation))]
        self._marks = {index: _LETTERS[n % len(_LETTERS)] for n, (index, _) in enumerate(works)}
        self._works = {index: f"#{index} {_describe(op)}" for index, op in works}
        self._names = dict(zip([index for index, _ in works], short([program.name(index) for index, _ in works]), strict=True))
        self._activities: dict[Unit, list[_Activity]] = {unit: [] for unit in Unit}

    def add(self, event: Event) -> None:
        """Keep one event."""
        self._activities[event.unit].append(_Activity(event.start, event.end, None if isinstance(event, Wait) else event.operation))

    @property
    def cycles(self) -> int:
        """The end of the last event."""
        return max((one.end for row in self._activities.values() for one in row), default=0)

    def lines(self, columns: int, first: int, last: int) -> list[str]:
        """The drawing of cycles ``first`` to ``last``, and the legend of the operations that it shows."""
        scale = max(1, ceil_div(last - first, columns))
        count, width = ceil_div(last - first, scale), LABELS - len(" ||")
        rows = {unit: _row(row, count, scale, first) for unit, row in self._activities.items()}
        lines = [f"{'cycle':>{width}} |{_ruler(count, scale, first)}|"]
        lines += [f"{unit.value:>{width}} |{''.join(map(self._mark, row))}|" for unit, row in rows.items()]
        shown = sorted({one for row in rows.values() for one in row if isinstance(one, int)} & set(self._works))
        part = f"{last - first} of {self.cycles} cycles" if last - first < self.cycles else f"{self.cycles} cycles"
        return [
            *lines,
            f"{part}, {scale} a column; a dot is a wait, a blank nothing to do",
            *(self._legend(index, columns + LABELS) for index in shown),
        ]

    def _legend(self, index: int, width: int) -> str:
        """The meaning of an operation's letter, with the layer's short name if ``width`` leaves room."""
        line = f"{self._marks[index]} = {self._works[index]}"
        return f"{line} {printable(self._names[index], max(width - len(line) - 1, _SHORTEST_NAME))}".rstrip()

    def _mark(self, cell: int | str) -> str:
        return cell if isinstance(cell, str) else self._marks.get(cell, _OTHER)


class TimelineRecorder:
    """A listener that draws the Programs that it heard.

    Every operation has a letter (A to Z, then A again); a unit that waits shows a dot, an idle one nothing. A column over several cycles
    shows the content with the most cycles; in a tie, the first one. The legend lists the visible operations, with layer names from
    ``short``.
    """

    def __init__(self, short: Short = _heads) -> None:
        self._drawings: list[_Drawing] = []
        self._short = short

    def on_start(self, program: Program) -> None:
        """Begin a Program."""
        self._drawings.append(_Drawing(program, self._short))

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        self._drawings[-1].add(event)

    def text(self, columns: int = 100, window: CycleWindow = WHOLE) -> str:
        """The drawings, at most ``columns`` wide without the units' names. The cycles of ``window`` continue from Program to Program."""
        origin, parts = 0, []
        several = len(self._drawings) > 1
        for number, drawing in enumerate(self._drawings):
            cycles = drawing.cycles
            first, last = max(window.first - origin, 0), cycles if window.last is None else min(window.last - origin, cycles)
            if first < last or (window == WHOLE and not several):
                title = [f"Program {number}, from cycle {origin} of the network"] if several else []
                parts.append("\n".join([*title, *drawing.lines(columns, first, last)]) + "\n")
            origin += cycles
        return "\n".join(parts)

    @property
    def cycles(self) -> int:
        """Cycles of all Programs."""
        return sum(drawing.cycles for drawing in self._drawings)


def _describe(op: KernelOperation | DmaOperation) -> str:
    if isinstance(op, DmaOperation):
        return f"DMA {op.length} bytes"
    return f"{op.mnemonic} {op.ofm.shape} block {op.block}"


def _ruler(columns: int, scale: int, first: int) -> str:
    """The first cycle of every tenth column, if the number fits."""
    text = ""
    for column in range(0, columns, 10):
        label = str(first + column * scale)
        if len(text) <= column <= columns - len(label):
            text = f"{text:<{column}}{label} "
    return f"{text:<{columns}}"[:columns]


def _row(activities: list[_Activity], columns: int, scale: int, first: int) -> list[int | str]:
    """The state of a unit at every column: the index of an operation, waiting, or idle."""
    shares: list[Counter[int | str]] = [Counter() for _ in range(columns)]
    for activity in activities:
        start, end = max(activity.start - first, 0), min(activity.end - first, columns * scale)
        for column in range(start // scale, ceil_div(end, scale) if end > start else 0):
            overlap = min(end, (column + 1) * scale) - max(start, column * scale)
            shares[column][WAITING if activity.operation is None else activity.operation] += overlap
    return [_most(share, scale) for share in shares]


def _most(share: Counter[int | str], scale: int) -> int | str:
    """The content with the most cycles of a column; idle if the idle cycles are more."""
    what, cycles = max(share.items(), key=lambda entry: entry[1], default=(IDLE, 0))
    return what if cycles >= scale - share.total() else IDLE
