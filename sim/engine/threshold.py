"""A count that units wait for."""

from __future__ import annotations

import simpy

from sim.engine.clock import Clock


class Threshold:
    """A count that grows, with events that fire at given levels."""

    def __init__(self, env: Clock) -> None:
        self._env = env
        self._waiting: list[tuple[int, simpy.Event]] = []
        self.count = 0

    def reach(self, level: int) -> simpy.Event:
        """An event that fires once the count is at least ``level``."""
        event = self._env.event()
        if self.count >= level:
            event.succeed()
        else:
            self._waiting.append((level, event))
        return event

    def advance(self, by: int = 1) -> None:
        """Increase the count; waiting events fire in the order of their creation."""
        self.count += by
        if self._waiting:
            ready = [event for level, event in self._waiting if level <= self.count]
            self._waiting = [entry for entry in self._waiting if entry[0] > self.count]
            for event in ready:
                event.succeed()
