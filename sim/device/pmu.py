"""The PMU: four counters of 32 bits and the cycle counter of 48 bits, which count while enabled, and their overflow bits."""

from __future__ import annotations

from collections.abc import Callable

from npu_model.programmer_registers import event_numbers

COUNTERS = 4
CYCLE_COUNTER = 31
"""Bit of the cycle counter in the enable, overflow and interrupt registers."""

_EVENT_BITS, _CYCLE_BITS = 32, 48
_WORD = (1 << 32) - 1

EventCount = Callable[[str], int]
"""The number of times that an event of this name has happened since the device was made."""


class Pmu:
    """The counters. Change settings only after :meth:`count`, which brings the counters up to date."""

    def __init__(self) -> None:
        self._names = {number: name for name, number in event_numbers().items()}
        self._seen: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0 and disable everything; earlier events no longer count."""
        self.enabled = False
        self.counting = 0
        self.overflowed = 0
        self.interrupting = 0
        self.types = [0] * COUNTERS
        self.start_event = self.stop_event = 0
        self.clear_events()
        self.clear_cycles()

    def clear_events(self) -> None:
        """PMCR.event_cnt_rst."""
        self.events = [0] * COUNTERS

    def clear_cycles(self) -> None:
        """PMCR.cycle_cnt_rst."""
        self.cycles = 0

    def _cycle_event(self) -> str | None:
        """The event whose cycles the cycle counter counts; None if its start event never comes.

        CYCLE, or no start event, starts it at once. NPU_ACTIVE starts it with a run; unless NPU_IDLE stops it, it goes on after that run.
        """
        start, stop = (self._names.get(number, "") for number in (self.start_event, self.stop_event))
        if self.start_event == 0 or start == "CYCLE":
            return "NPU_ACTIVE" if stop == "NPU_IDLE" else "CYCLE"
        if start == "NPU_ACTIVE":
            return "NPU_ACTIVE" if stop == "NPU_IDLE" else "CYCLE_SINCE_ACTIVE"
        return None

    def count(self, event: EventCount) -> bool:
        """Add the events since the last call; return whether a counter wrapped whose interrupt is enabled."""
        before, self._seen = self._seen, {}
        names = {*map(self._type_name, range(COUNTERS)), self._cycle_event()} - {None}
        self._seen = {name: event(name) for name in names if name is not None}
        if not self.enabled:
            return False
        wrapped = 0
        for index in range(COUNTERS):
            name = self._type_name(index)
            if name is not None and self.counting >> index & 1:
                value = self.events[index] + self._seen[name] - before.get(name, self._seen[name])
                self.events[index] = value & _WORD
                wrapped |= (value >> _EVENT_BITS > 0) << index
        name = self._cycle_event()
        if name is not None and self.counting >> CYCLE_COUNTER & 1:
            value = self.cycles + self._seen[name] - before.get(name, self._seen[name])
            self.cycles = value & (1 << _CYCLE_BITS) - 1
            wrapped |= (value >> _CYCLE_BITS > 0) << CYCLE_COUNTER
        self.overflowed |= wrapped
        return bool(wrapped & self.interrupting)

    def _type_name(self, index: int) -> str | None:
        return self._names.get(self.types[index])
