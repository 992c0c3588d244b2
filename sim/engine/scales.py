"""The scales of an output unit that has a read buffer for them: their reads go beside those of the weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import simpy

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read
from npu_model.timing import TimingParameters
from sim.engine.clock import Clock
from sim.engine.ports import Ports, transactions
from sim.engine.terms import Channel, burst_beats
from sim.engine.threshold import Threshold


class Scales:
    """The blocks' scales, in the order of the blocks.

    Transactions are requested when none is under way: as many as the buffer holds. The output unit takes what has arrived.
    """

    def __init__(self, env: Clock, ports: Ports, accelerator: Accelerator, timing: TimingParameters) -> None:
        self._ports, self._accelerator, self._timing = ports, accelerator, timing
        self._words = accelerator.access.scale_words
        self._left: deque[Read] = deque()
        self._under_way = self._asked = 0
        self._ends: deque[int] = deque()
        self._there = Threshold(env)

    def _cut(self, job: BlockJob) -> None:
        for read in job.scales:
            memory = self._ports.system.ports[self._ports.system.port_of(read.region)]
            burst = min(self._words, burst_beats(memory, Channel.SCALES, self._accelerator, self._timing))
            cuts = transactions(read.runs, burst, read.phase)
            # All but the first start on a multiple of the burst.
            self._left.extend(Read(read.region, (beats,), 0 if number else read.phase) for number, beats in enumerate(cuts))
            self._asked += len(cuts)
        self._ends.append(self._asked)

    def ask(self, jobs: Sequence[BlockJob]) -> None:
        """Queue the scales of these blocks, if the output unit has a buffer for them."""
        if self._words:
            for job in jobs:
                self._cut(job)
            self._fill()

    def _fill(self) -> None:
        room = 0 if self._under_way else self._words
        while self._left and self._left[0].runs[0] <= room:
            read = self._left.popleft()
            room -= read.runs[0]
            self._under_way += 1
            self._ports.read(read.region, Channel.SCALES, read.runs, read.phase).call(self._arrive)

    def _arrive(self) -> None:
        self._under_way -= 1
        self._there.advance()
        self._fill()

    def next(self) -> simpy.Event:
        """An event that fires when all scales of the next block are there."""
        return self._there.reach(self._ends.popleft())
