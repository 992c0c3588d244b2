"""Counts of a replay: busy and waiting cycles of every unit, per operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from sim.engine.clock import Clock
from sim.events import Busy, Cause, Listener, Unit, Wait


class Recorder:
    """Counts busy and waiting cycles and tells the listeners."""

    def __init__(self, env: Clock, listeners: Sequence[Listener]) -> None:
        self._env = env
        self._listeners = tuple(listeners)
        self.busy: Counter[tuple[int, Unit]] = Counter()
        self.waits: Counter[tuple[int, Unit, Cause]] = Counter()

    def was_busy(self, unit: Unit, start: int, operation: int) -> None:
        """``unit`` worked from ``start`` to now."""
        end = self._env.cycle
        if end > start:
            self.busy[operation, unit] += end - start
            for listener in self._listeners:
                listener.on_event(Busy(unit, start, end, operation))

    def waited(self, unit: Unit, cause: Cause, start: int, operation: int) -> None:
        """``unit`` waited from ``start`` to now; an empty wait is not counted."""
        end = self._env.cycle
        if end > start:
            self.waits[operation, unit, cause] += end - start
            for listener in self._listeners:
                listener.on_event(Wait(unit, cause, start, end, operation))

    def wait(self, unit: Unit, cause: Cause, event: simpy.Event, operation: int) -> Generator[simpy.Event, Any, None]:
        """Let ``unit`` wait for ``event``."""
        start = self._env.cycle
        yield event
        self.waited(unit, cause, start, operation)

    def work(self, unit: Unit, event: simpy.Event, operation: int) -> Generator[simpy.Event, Any, None]:
        """Let ``unit`` work until ``event``."""
        start = self._env.cycle
        yield event
        self.was_busy(unit, start, operation)
