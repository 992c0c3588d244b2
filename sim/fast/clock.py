"""The twin's agenda: which unit runs on in which cycle, in exactly the order in which SimPy would resume it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Generator
from functools import partial
from heapq import heappop, heappush
from itertools import count

Resume = Callable[[], object]
"""Runs a unit on to its next wait."""

Unit = Generator[None, Resume, None]
"""A unit: it is sent what resumes it, then yields wherever it waits."""

NEVER = 1 << 62
"""A cycle after any replay."""


class Agenda:
    """Units to resume, cycle by cycle.

    SimPy processes the events of a cycle in the order in which they were scheduled: those of earlier cycles first, then those
    that the cycle itself brings about. A heap of the later cycles, numbered as they come, and a list of the present one, which
    grows while it is walked, keep exactly this order.

    If nothing else is to be resumed before a unit, it need not wait for its turn: :meth:`soon` and :meth:`later` say whether
    it must.
    """

    __slots__ = ("_numbers", "cycle", "due", "later_units", "number", "running")

    def __init__(self) -> None:
        self.cycle = 0
        """The present cycle."""
        self.due: list[Resume] = []
        """The units of the present cycle, those that have run included."""
        self.later_units: list[tuple[int, int, Resume]] = []
        """The heap: cycle, number, unit."""
        self.number: Callable[[], int] = count().__next__
        """The next number; each is given once."""
        self.running = NEVER
        """The number of the unit that runs; NEVER if the present cycle itself brought it about."""
        self._numbers: list[int] = []

    def soon(self, me: Resume) -> bool:
        """Let the running unit go on after all that is due in this cycle; False if it need not wait."""
        due = self.due
        if due[-1] is me:
            return False
        due.append(me)
        return True

    def later(self, cycles: int, me: Resume) -> bool:
        """Let the running unit go on in so many cycles; False if it need not wait, as the clock has been moved on."""
        if not cycles:
            return self.soon(me)
        cycle, units = self.cycle + cycles, self.later_units
        if self.due[-1] is me and (not units or units[0][0] > cycle):
            self.cycle, self.running = cycle, NEVER
            return False
        heappush(units, (cycle, self.number(), me))
        return True

    def call(self, cycles: int, action: Resume) -> None:
        """Run ``action`` in so many cycles, one at least."""
        heappush(self.later_units, (self.cycle + cycles, self.number(), action))

    def belatedly(self, cycle: int, number: int, resume: Resume) -> bool:
        """Resume a unit as if it had been put into the heap when ``number`` was given; False if that moment is over."""
        if (cycle, number) < (self.cycle, self.running):
            return False
        if cycle > self.cycle:
            heappush(self.later_units, (cycle, number, resume))
        else:
            # The unit that runs came out of the heap. If it was alone there is no list of numbers: see walk.
            place = 1
            if self._numbers:
                place = bisect(self._numbers, number)
                self._numbers.insert(place, number)
            self.due.insert(place, resume)
        return True

    def start(self, unit: Unit) -> None:
        """Run a unit to its first wait as soon as the agenda is walked."""
        next(unit)
        self.due.append(partial(unit.send, unit.__next__))

    def walk(self) -> None:
        """Resume units until none is left."""
        due, units, numbers = self.due, self.later_units, self._numbers
        while True:
            left = iter(due)
            for self.running in numbers:
                next(left)()
            self.running = NEVER
            for resume in left:
                resume()
            due.clear()
            numbers.clear()
            # Most cycles have one unit that was put into the heap: that is, the loop above, unrolled.
            while units:
                self.cycle, number, resume = heappop(units)
                due.append(resume)
                if units and units[0][0] == self.cycle:
                    numbers.append(number)
                    break
                self.running = number
                resume()
                self.running = NEVER
                if len(due) > 1:
                    left = iter(due)
                    next(left)
                    for resume in left:
                        resume()
                due.clear()
            else:
                return
            while units and units[0][0] == self.cycle:
                _, number, resume = heappop(units)
                numbers.append(number)
                due.append(resume)
