"""A listener that keeps the events of a replay for a timeline. If there are too many, it keeps their sums by unit and operation."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_model.program import Program
from sim import Busy, Cause, Event, Unit

MAX_EVENTS = 150_000
"""Events that are shown one by one: about 3 MB of a report."""

BUSY = -1
"""Replaces the number of a cause while the unit works."""

Key = tuple[int, int, int]
"""Unit, cause (or :data:`BUSY`) and operation, each by its number."""

_UNITS = {unit: number for number, unit in enumerate(Unit)}
_CAUSES = {cause: number for number, cause in enumerate(Cause)}


@dataclass(slots=True)
class Stretch:
    """A stretch from cycle ``start`` to ``end``; for ``cycles`` of it, the unit was in this state."""

    start: int
    end: int
    cycles: int


@dataclass(slots=True)
class Recording:
    """The events of one Program in order, None once there are too many, and the same joined per unit, cause and operation."""

    events: list[tuple[Key, int, int]] | None = field(default_factory=list)
    joined: dict[Key, Stretch] = field(default_factory=dict)


class TimelineEvents:
    """A listener for :func:`npu_testbed.html.data.timeline_data`."""

    def __init__(self, most: int = MAX_EVENTS) -> None:
        self._most, self._count = most, 0
        self.recordings: list[Recording] = []

    def on_start(self, program: Program) -> None:  # noqa: ARG002  # the replay has the Program
        """Begin a Program."""
        self.recordings.append(Recording())

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        recording = self.recordings[-1]
        key = (_UNITS[event.unit], BUSY if isinstance(event, Busy) else _CAUSES[event.cause], event.operation)
        self._count += 1
        if self._count > self._most:
            for one in self.recordings:
                one.events = None
        if recording.events is not None:
            recording.events.append((key, event.start, event.end))
        stretch = recording.joined.setdefault(key, Stretch(event.start, event.end, 0))
        stretch.end = event.end
        stretch.cycles += event.end - event.start

    @property
    def every_event(self) -> bool:
        """Whether each event is kept."""
        return self._count <= self._most
