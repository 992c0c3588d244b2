"""Loads of an input buffer of which every free slot is asked for: several are under way, and each is handed on in its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any

import simpy

from sim.engine.machine import Machine, Work
from sim.events import Cause, Unit


class Loads:
    """Loads that are asked for and not handed on yet, oldest first.

    A port answers the reads of one channel in the order of the requests. A load is complete once each port has answered all reads that were
    requested up to then.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._under_way: deque[tuple[Work, tuple[int, int], int]] = deque()
        self._asked, self._arrived = [0, 0], [0, 0]
        self._last = 0

    def ask(self, work: Work) -> None:
        """Read the IFM of a step into a slot that is taken, or in the one before."""
        ports = self._machine.ports
        for read in work.job.steps[work.step].fetches:
            port = ports.system.port_of(read.region)
            self._asked[port] += 1
            ports.load(read.region, read.runs, work.run.ifm_pace).call(partial(self._arrive, port))
        self._under_way.append((work, (self._asked[0], self._asked[1]), self._machine.env.cycle))
        self._hand_on()

    def _arrive(self, port: int) -> None:
        self._arrived[port] += 1
        self._hand_on()

    def _hand_on(self) -> None:
        machine = self._machine
        while self._under_way and all(asked <= there for asked, there in zip(self._under_way[0][1], self._arrived, strict=True)):
            work, _, start = self._under_way.popleft()
            machine.recorder.was_busy(Unit.IFM, max(start, self._last), work.run.index)
            self._last = machine.env.cycle
            machine.input_buffer.fill(work)

    def wait(self, cause: Cause, event: simpy.Event, operation: int) -> Generator[simpy.Event, Any, None]:
        """Let the input load wait; as long as something is under way it is at work."""
        start = self._machine.env.cycle
        yield event
        if not self._under_way:
            self._machine.recorder.waited(Unit.IFM, cause, max(start, self._last), operation)
