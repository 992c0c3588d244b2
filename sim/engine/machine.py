"""The state that the NPU's units share during one replay: queues, double buffers, ports, and counts of every unit's cycles.

Scales of an output unit with a read buffer for them are read beside the weights.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import simpy
from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation, Program
from npu_model.timing import BlockdepRule, TimingParameters
from sim.engine.clock import Clock
from sim.engine.ports import Ports, transactions
from sim.engine.terms import Channel, Times, burst_beats
from sim.engine.threshold import Threshold
from sim.events import Busy, Cause, Listener, Unit, Wait


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


class Fifo:
    """First in, first out: items go to the getters in the order in which the getters came.

    Like :class:`simpy.Store` without a capacity, but a put makes no event: hand-offs are most of a replay's events.
    """

    def __init__(self, env: Clock, content: Iterable[object] = ()) -> None:
        self._env = env
        self._content = deque(content)
        self._getters: deque[simpy.Event] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether no item is available."""
        return not self._content

    def put(self, item: object) -> None:
        """Give ``item`` to the first getter that waits, or keep it."""
        if self._getters:
            self._getters.popleft().succeed(item)
        else:
            self._content.append(item)

    def pop(self) -> Any:
        """Take an available item."""
        return self._content.popleft()

    def get(self) -> simpy.Event:
        """An event that fires with the next item."""
        event = self._env.event()
        if self._content:
            event.succeed(self._content.popleft())
        else:
            self._getters.append(event)
        return event


class DoubleBuffer:
    """The two slots between two units: the producer takes a free one and fills it; the consumer empties and frees it."""

    def __init__(self, env: Clock, slots: int) -> None:
        self._free = Fifo(env, range(slots))
        self._filled = Fifo(env)

    def take(self) -> simpy.Event:
        """An event that fires when it has taken a free slot."""
        return self._free.get()

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return self._free.is_empty

    def fill(self, content: object) -> None:
        """Pass a filled slot to the consumer."""
        self._filled.put(content)

    def next(self) -> simpy.Event:
        """An event that fires with the content of the next filled slot."""
        return self._filled.get()

    def release(self) -> None:
        """Free a slot."""
        self._free.put(0)


@dataclass(slots=True)
class KernelRun:
    """A kernel operation in the pipeline."""

    index: int
    op: KernelOperation
    jobs: tuple[BlockJob, ...]
    previous: KernelRun | None
    written: Threshold
    """Blocks that are stored."""
    issued: int
    """Cycle at which the kernel entered its queue."""
    ifm_pace: int
    """Cycles per word at the input buffer; 0 for no limit."""

    def needed_of_previous(self, block: int, rule: BlockdepRule) -> int:
        """Blocks of the previous kernel that must be stored before this one's ``block`` may start (BLOCKDEP)."""
        if self.previous is None or rule is BlockdepRule.IGNORED:
            return 0
        blockdep = self.op.blockdep if rule is BlockdepRule.HONOURED else 0
        return len(self.previous.jobs) - max(0, blockdep - block)

    @property
    def repartitions(self) -> bool:
        """Whether the SHRAM partition differs from the previous kernel's."""
        return self.previous is not None and self.previous.op.shram != self.op.shram


class Work(Struct, frozen=True):
    """One step of a kernel's block, as it passes from unit to unit."""

    run: KernelRun
    block: int
    step: int

    @property
    def job(self) -> BlockJob:
        """The block's job."""
        return self.run.jobs[self.block]

    @property
    def is_last_step(self) -> bool:
        """Whether the block's accumulation is complete after this step."""
        return self.step == len(self.job.steps) - 1

    @property
    def frees_input(self) -> bool:
        """Whether no further part of the step needs its IFM block."""
        return self.is_last_step or not self.job.steps[self.step + 1].continues

    @property
    def is_last_block(self) -> bool:
        """Whether this is the kernel's last block."""
        return self.block == len(self.run.jobs) - 1


class Machine:
    """The state that several units share."""

    def __init__(
        self,
        program: Program,
        accelerator: Accelerator,
        system: MemorySystem,
        listeners: Sequence[Listener],
        timing: TimingParameters,
        jobs: Mapping[int, tuple[BlockJob, ...]],
    ) -> None:
        env = Clock()
        self.env = env
        self.program = program
        self.accelerator = accelerator
        self.timing = timing
        self.jobs = jobs
        self.recorder = Recorder(env, listeners)
        self.ports = Ports(env, system, timing, accelerator)
        self.scales = Scales(env, self.ports, accelerator, timing)
        self.times: dict[int, Times] = {}
        # The command processor's view: words fetched and parsed, operations finished.
        self.fetched = Threshold(env)
        self.parsed = Threshold(env)
        self.kernels_done = Threshold(env)
        self.dmas_done = Threshold(env)
        # The queues that it fills.
        self.kernel_queue = Fifo(env)
        self.dma_queue = Fifo(env)
        # The pipeline's buffers, in the data's way.
        self.weight_queue = Fifo(env)
        # The events that may let the weight decoder go on: arrivals, free slots and new blocks, if it looks ahead.
        self.weight_news = Fifo(env)
        self._is_ahead = accelerator.access.weight_bursts > 0
        self.input_buffer = DoubleBuffer(env, timing.buffer_slots)
        self.weight_buffer = DoubleBuffer(env, timing.buffer_slots + accelerator.access.weight_steps_ahead)
        self.accumulators = DoubleBuffer(env, timing.buffer_slots)
        self.output_buffer = DoubleBuffer(env, timing.buffer_slots)

    def tell_weights(self) -> None:
        """Tell a weight decoder that reads ahead about a change."""
        if self._is_ahead:
            self.weight_news.put(0)
