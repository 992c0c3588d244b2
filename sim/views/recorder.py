"""A listener that keeps the events of a replay. If there are too many, it keeps their sums by unit, cause and operation."""

from __future__ import annotations

from dataclasses import dataclass, field

from npu_model.program import Program
from sim.events import Cause, Event, Unit, Wait

TRACED = 300_000
"""Events that a trace shows one by one. Browsers easily open about 100 MB of JSON."""

DRAWN = 150_000
"""Events that a web page shows one by one: about 3 MB of it."""

Key = tuple[Unit, Cause | None, int]
"""Unit, cause (None while the unit works) and operation."""


@dataclass(slots=True)
class Stretch:
    """A stretch from cycle ``start`` to ``end``; for ``cycles`` of it, the unit was in this state."""

    start: int
    end: int
    cycles: int = 0


@dataclass(slots=True)
class Recording:
    """The events of one Program in order, None once there are too many, and the same joined per unit, cause and operation."""

    events: list[tuple[Key, int, int]] | None = field(default_factory=list)
    joined: dict[Key, Stretch] = field(default_factory=dict)


class EventRecorder:
    """A listener that keeps at most ``most`` events one by one."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self.recordings: list[Recording] = []

    def on_start(self, program: Program) -> None:  # noqa: ARG002  # the replay has the Program
        """Begin a Program."""
        self.recordings.append(Recording())

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        recording = self.recordings[-1]
        key = (event.unit, event.cause if isinstance(event, Wait) else None, event.operation)
        self.count += 1
        if not self.every_event:
            for one in self.recordings:
                one.events = None
        if recording.events is not None:
            recording.events.append((key, event.start, event.end))
        stretch = recording.joined.setdefault(key, Stretch(event.start, event.end))
        stretch.end = event.end
        stretch.cycles += event.end - event.start

    @property
    def every_event(self) -> bool:
        """Whether each event is kept."""
        return self.count <= self.most
