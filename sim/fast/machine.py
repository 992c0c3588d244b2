"""Ports of the twin's units, and their counts, queues and buffers as plain numbers, with at most one unit waiting for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from npu_model.program import DmaOperation, KernelOperation, Program
from sim.engine.terms import Times
from sim.fast.clock import Agenda, Resume
from sim.fast.jobs import FlatBlock, FlatKernel, FlatStep, ReplayCache
from sim.fast.ports import make_ports

T = TypeVar("T")


class Count:
    """A count that grows."""

    __slots__ = ("_due", "_level", "_waiting", "value")

    def __init__(self, agenda: Agenda) -> None:
        self._due = agenda.due
        self._level = 0
        self._waiting: Resume | None = None
        self.value = 0

    def reach(self, level: int, me: Resume) -> bool:
        """Let the running unit go on once the count is at least ``level``; False if it need not wait."""
        if self.value < level:
            self._level, self._waiting = level, me
            return True
        if self._due[-1] is me:
            return False
        self._due.append(me)
        return True

    def advance(self, by: int = 1) -> None:
        """Count on."""
        self.value += by
        if self._waiting is not None and self.value >= self._level:
            self._due.append(self._waiting)
            self._waiting = None


class Fifo(Generic[T]):
    """Items that one unit hands to another, first in, first out."""

    __slots__ = ("_due", "_waiting", "items")

    def __init__(self, agenda: Agenda) -> None:
        self._due = agenda.due
        self._waiting: Resume | None = None
        self.items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Hand over one item."""
        self.items.append(item)
        if self._waiting is not None:
            self._due.append(self._waiting)
            self._waiting = None

    def put_all(self, items: Iterable[T]) -> None:
        """Hand over items."""
        for item in items:
            self.put(item)

    def wait(self, me: Resume) -> bool:
        """Let the running unit go on once there is an item; False if it need not wait."""
        if not self.items:
            self._waiting = me
            return True
        if self._due[-1] is me:
            return False
        self._due.append(me)
        return True


class Slots:
    """The free slots of a buffer between two units."""

    __slots__ = ("_due", "_free", "_waiting")

    def __init__(self, agenda: Agenda, slots: int) -> None:
        self._due = agenda.due
        self._free = slots
        self._waiting: Resume | None = None

    def take(self, me: Resume) -> bool:
        """Let the running unit go on with a slot; False if it need not wait."""
        if not self._free:
            self._waiting = me
            return True
        self._free -= 1
        if self._due[-1] is me:
            return False
        self._due.append(me)
        return True

    def take_now(self) -> bool:
        """Take a slot if one is free."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Free a slot, for the unit that waits if there is one."""
        if self._waiting is not None:
            self._due.append(self._waiting)
            self._waiting = None
        else:
            self._free += 1


@dataclass(slots=True, eq=False)
class KernelRun:
    """A kernel operation on its way through the units."""

    index: int
    op: KernelOperation
    flat: FlatKernel
    previous: KernelRun | None
    written: Count
    issued: int

    @property
    def repartitions(self) -> bool:
        """Whether the SHRAM partition differs from the previous kernel's."""
        return self.previous is not None and self.previous.op.shram != self.op.shram


StepWork = tuple[KernelRun, int, FlatBlock, FlatStep]
"""A step as the input load hands it on: the run, the block's number, the block, the step."""

BlockWork = tuple[KernelRun, int, FlatBlock]
"""A block whose accumulation is complete."""


class Machine:
    """Everything that more than one unit looks at; ``end`` is the cycle in which all was finished."""

    def __init__(self, program: Program, cache: ReplayCache, flat: Mapping[int, FlatKernel]) -> None:
        self.agenda = agenda = Agenda()
        self.program = program
        self.cache = cache
        self.flat = flat
        self.accelerator, self.system, self.timing = cache.accelerator, cache.system, cache.timing
        self.ports = make_ports(agenda, cache.system.ports, cache.lanes, cache.timing)
        self.times: dict[int, Times] = {}
        self.end = 0
        self.fetched, self.parsed, self.kernels_done, self.dmas_done = (Count(agenda) for _ in range(4))
        self.kernel_queue = Fifo[KernelRun](agenda)
        self.dma_queue = Fifo[tuple[int, DmaOperation, int]](agenda)
        self.weight_queue = Fifo[FlatBlock](agenda)
        self.weight_news = Fifo[None](agenda)
        self.asks_ahead = self.accelerator.access.weight_bursts > 0
        # The pipeline's buffers in the data's way: the free slots of each, and what fills it.
        slots = cache.timing.buffer_slots
        self.input_slots, self.accumulator_slots, self.output_slots = (Slots(agenda, slots) for _ in range(3))
        self.weight_slots = Slots(agenda, slots + self.accelerator.access.weight_steps_ahead)
        self.loaded = Fifo[StepWork](agenda)
        self.decoded = Fifo[FlatStep](agenda)
        self.accumulated = Fifo[BlockWork](agenda)
        self.scaled = Fifo[BlockWork](agenda)
