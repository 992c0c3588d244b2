"""The weight decoder's reads: slot by slot, or burst by burst within the limit of transactions of a core."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from itertools import zip_longest
from typing import Any

import simpy

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import Read
from npu_model.memory.system import MemorySystem
from npu_model.timing import TimingParameters
from sim.engine.machine import Machine, Work
from sim.engine.ports import transactions
from sim.engine.terms import Channel, burst_beats, most_weight_bursts
from sim.events import Cause, Unit

Process = Generator[simpy.Event, Any, None]

Ask = tuple[Channel, Read]


def weight_bursts(
    weights: tuple[Read, ...], scales: tuple[Read, ...], system: MemorySystem, device: Accelerator, timing: TimingParameters
) -> list[Ask]:
    """The reads of a step, one transaction at a time with the cores in turn, followed by its scales."""
    streams = []
    for read in weights:
        burst = burst_beats(system.ports[system.port_of(read.region)], Channel.WEIGHTS, device, timing)
        cuts = transactions(read.runs, burst, read.phase)
        # All but the first start on a multiple of the burst.
        streams.append([Read(read.region, (beats,), 0 if number else read.phase) for number, beats in enumerate(cuts)])
    bursts = [(Channel.WEIGHTS, read) for row in zip_longest(*streams) for read in row if read is not None]
    return bursts + [(Channel.SCALES, read) for read in scales]


def _slot_by_slot(machine: Machine) -> Process:
    """Fetch a step when a slot is free and the previous step has arrived."""
    recorder = machine.recorder
    while True:
        work: Work = yield machine.weight_queue.get()
        for number, step in enumerate(work.job.steps):
            yield from recorder.wait(Unit.WD, Cause.DW, machine.weight_buffer.take(), work.run.index)
            start = machine.env.cycle
            reads = [machine.ports.read(read.region, Channel.WEIGHTS, read.runs, read.phase) for read in step.weights]
            if number == 0 and not machine.accelerator.access.scale_words:
                reads += [machine.ports.read(read.region, Channel.SCALES, read.runs, read.phase) for read in work.job.scales]
            yield from reads
            recorder.was_busy(Unit.WD, start, work.run.index)
            machine.weight_buffer.fill(number)


class _Reader:
    """The steps whose weights are requested but have not arrived, and the remaining requests of the last step."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._most = machine.accelerator.access.weight_bursts * machine.accelerator.cores
        self.steps: deque[tuple[int, int, list[Ask]]] = deque()
        """Steps of the current block that are not begun: operation, transactions that it may have under way, and reads."""
        self._left: deque[Ask] = deque()
        self._under_way: deque[tuple[int, int]] = deque()
        self._operation = 0
        self.asked = self.arrived = 0

    @property
    def operation(self) -> int:
        """The operation whose weights are under way."""
        return self._under_way[0][0] if self._under_way else self._operation

    @property
    def waiting(self) -> int | None:
        """The operation whose next step waits for a slot, if any."""
        return self.steps[0][0] if self.steps else None

    @property
    def is_complete(self) -> bool:
        """Whether the oldest step has arrived completely."""
        return bool(self._under_way) and self._under_way[0][1] <= self.arrived

    def open(self, work: Work) -> None:
        """Take over the steps of the next block."""
        machine, job, most = self._machine, work.job, most_weight_bursts(work.run.op, self._machine.accelerator)
        for number, step in enumerate(job.steps):
            scales = job.scales if number == 0 and not machine.accelerator.access.scale_words else ()
            reads = weight_bursts(step.weights, scales, machine.ports.system, machine.accelerator, machine.timing)
            self.steps.append((work.run.index, most, reads))

    def begin(self) -> None:
        """Begin the next step in a taken slot."""
        self._operation, self._most, reads = self.steps.popleft()
        self._left.extend(reads)
        self._note()

    def _arrive(self) -> None:
        self.arrived += 1
        self._machine.tell_weights()

    def _note(self) -> None:
        if not self._left:
            self._under_way.append((self._operation, self.asked))

    def decode(self) -> None:
        """Pass on complete steps."""
        while self.is_complete:
            self._machine.weight_buffer.fill(self._under_way.popleft())

    def ask(self) -> None:
        """Request all reads that may be under way, step after step while there are slots."""
        machine = self._machine
        while self.asked - self.arrived < self._most:
            if self._left:
                channel, read = self._left.popleft()
                machine.ports.read(read.region, channel, read.runs, read.phase).call(self._arrive)
                self.asked += 1
                self._note()
                continue
            if not self.steps:
                if machine.weight_queue.is_empty:
                    return
                self.open(machine.weight_queue.pop())
            if machine.weight_buffer.is_full:
                return
            machine.weight_buffer.take()
            self.begin()


def _ahead(machine: Machine) -> Process:
    """Keep each core's largest number of transactions under way, over all slots."""
    recorder, reader = machine.recorder, _Reader(machine)
    while True:
        reader.decode()
        reader.ask()
        if reader.is_complete:
            continue
        start, is_busy, waiting = machine.env.cycle, reader.asked > reader.arrived, reader.waiting
        yield machine.weight_news.get()
        if is_busy:
            recorder.was_busy(Unit.WD, start, reader.operation)
        elif waiting is not None:
            recorder.waited(Unit.WD, Cause.DW, start, waiting)


def weight_decoder(machine: Machine) -> Process:
    """Fetch scales and weights ahead of the kernel's IFM; the decoder's own rate is part of the MAC cycles."""
    return _ahead(machine) if machine.accelerator.access.weight_bursts else _slot_by_slot(machine)
