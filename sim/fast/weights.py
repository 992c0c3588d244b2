"""The twin's weight decoder: the unit of :mod:`sim.engine.weights`, wait by wait in the same order."""

from __future__ import annotations

from collections import deque

from sim.fast.clock import Unit
from sim.fast.jobs import FlatStep, Request
from sim.fast.machine import Machine
from sim.fast.pipeline import ask_for


def _slot_by_slot(machine: Machine) -> Unit:
    """Fetch a step when a slot is free and all of the one before is there."""
    me = yield
    queue, ports, slots, decoded = machine.weight_queue, machine.ports, machine.weight_slots, machine.decoded
    while True:
        if queue.wait(me):
            yield
        for step in queue.items.popleft().steps:
            if slots.take(me):
                yield
            if step.weights:
                ask_for(ports, step.weights, me)
                yield
            decoded.put(step)


class _Reader:
    """The steps whose weights are asked for and not there yet, and what is left to ask for of the last of them."""

    __slots__ = ("_left", "_machine", "_most", "_step", "_steps", "_under_way", "arrived", "asked")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._most = machine.accelerator.access.weight_bursts * machine.accelerator.cores
        self._steps: deque[FlatStep] = deque()
        self._left: deque[Request] = deque()
        self._under_way: deque[tuple[FlatStep, int]] = deque()
        self.asked = self.arrived = 0

    def _arrive(self) -> None:
        self.arrived += 1
        self._machine.weight_news.put(None)

    def is_complete(self) -> bool:
        """Whether all of the oldest step is there."""
        return bool(self._under_way) and self._under_way[0][1] <= self.arrived

    def decode(self) -> None:
        """Hand on what is complete."""
        while self.is_complete():
            self._machine.decoded.put(self._under_way.popleft()[0])

    def _begin(self) -> bool:
        """Begin with the next step if there are one and a slot for it."""
        queue = self._machine.weight_queue.items
        if not self._steps:
            if not queue:
                return False
            self._steps.extend(queue.popleft().steps)
        if not self._machine.weight_slots.take_now():
            return False
        self._step = self._steps.popleft()
        self._left.extend(self._step.weights)
        if not self._left:
            self._under_way.append((self._step, self.asked))
        return True

    def ask(self) -> None:
        """Ask for what may be under way, step after step as long as there are slots."""
        while self.asked - self.arrived < self._most and (self._left or self._begin()):
            if not self._left:
                continue
            request = self._left.popleft()
            self._machine.ports[request.port][0].transfer(request.channel, request.transfer, self._arrive)
            self.asked += 1
            if not self._left:
                self._under_way.append((self._step, self.asked))


def _ahead(machine: Machine) -> Unit:
    """Keep as many transactions under way as each core may have."""
    me = yield
    reader, news = _Reader(machine), machine.weight_news
    while True:
        reader.decode()
        reader.ask()
        if reader.is_complete():
            continue
        if news.wait(me):
            yield
        news.items.popleft()


def weight_decoder(machine: Machine) -> Unit:
    """Fetch scales and weights step by step."""
    return _ahead(machine) if machine.accelerator.access.weight_bursts else _slot_by_slot(machine)
