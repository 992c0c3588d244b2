"""The least flow of a kernel: how late its units are done at least, by when those of the kernel before it were.

The replay's units take their work in order, step by step and block by block, and hand it on: input load and weight decoder to the MAC
array, that to the output unit, and that to the write-back. Each waits for a free one of some slots behind it, which the kernel before may
still hold. Every time in such a flow is the latest of some sums of others. So it is never earlier than with each sum made smaller, whoever
else uses the ports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cascader.ethosu.proof.least_work import Block, LeastWork
from npu_model.timing import TimingParameters

LONG_AGO = -(1 << 40)
"""Before any cycle, by more than any cycles that are added to it."""

FLOW, RELEASED = 17, 4
"""Numbers of :attr:`LeastFlow.flat` and of :meth:`LeastFlow.released`."""


class FlowTimes(NamedTuple):
    """Cycles at which the units are done with a kernel at the earliest: its input load, MACs, output, stores, and the last response."""

    load: int
    mac: int
    output: int
    store: int
    finish: int


START = FlowTimes(0, 0, 0, 0, 0)
"""Before the first kernel."""


def _behind(ends: Sequence[int], slots: int) -> int:
    """When a slot is free: with the end of what took it before."""
    return ends[-slots] if len(ends) >= slots else LONG_AGO


class Begun(NamedTuple):
    """Cycles from which on the units may take up a kernel, and at which the kernel before has left the last slots behind each."""

    load: int
    decoded: int
    mac: int
    output: int
    store: int


_FREE = (
    Begun(0, 0, 0, 0, 0),
    Begun(LONG_AGO, LONG_AGO, 0, 0, 0),
    Begun(LONG_AGO, LONG_AGO, LONG_AGO, 0, 0),
    Begun(LONG_AGO, LONG_AGO, LONG_AGO, LONG_AGO, 0),
)
"""One unit free at cycle 0, in the order of :class:`FlowTimes`; those behind it are not free earlier, those before it long ago."""

_RELEASED = Begun(0, LONG_AGO, LONG_AGO, LONG_AGO, LONG_AGO)
"""The input load free at cycle 0, the other units long ago: the decoder goes on while a kernel waits."""


Decode = Callable[[int, int], int]
"""Cycle at which the constants of a block's step are there, from the step's number and the cycle from which on they may be asked for."""


class FlowRun:
    """Some blocks through the units."""

    def __init__(self, slots: int, begun: Begun) -> None:
        self._slots = slots
        self.load, self.decoded, self.mac, self.output, self.store = begun
        self.passed = min(self.load, self.decoded)
        """Cycle at which the words so far of a port have passed that reads both IFM and constants, neither of which began before."""
        self._groups = [begun.mac]
        self._steps = [begun.mac]
        self._outputs = [begun.output]
        self._stores = [begun.store]

    def block(self, block: Block, response: int, decode: Decode) -> None:
        """One more block."""
        slots = self._slots
        accumulators = _behind(self._outputs, slots)
        for number, (fetched, _, macs, continues) in enumerate(block.steps):
            # Both may be ahead of the MAC array by as many steps as they have slots.
            self.load = (self.load if continues else max(self.load, _behind(self._groups, slots))) + fetched
            self.decoded = decode(number, max(self.decoded, _behind(self._steps, slots)))
            self.passed += block.together[number] if block.together else 0
            self.mac = max(self.mac, self.load, self.decoded, self.passed, accumulators) + macs
            self._steps.append(self.mac)
            if continues:
                self._groups[-1] = self.mac
            else:
                self._groups.append(self.mac)
        self.output = max(self.output, self.mac, _behind(self._stores, slots)) + block.output
        self._outputs.append(self.output)
        self.store = max(self.store, self.output) + block.stored + response
        self._stores.append(self.store)


class LeastFlow:
    """The flow of one kernel behind another one, whichever that is."""

    def __init__(self, work: LeastWork, timing: TimingParameters) -> None:
        self.work = work
        self._timing = timing
        self.slots = timing.buffer_slots
        self._stream: tuple[int, ...] | None = None
        # Where writes are not posted, the write-back waits for each response.
        self.response = 0 if timing.posted_writes else work.response
        self.rest = work.response if timing.posted_writes else 0
        self._drain = timing.drain_responses * work.response
        self._released: dict[int, FlowTimes | None] = {}
        start = timing.kernel_start_cycles
        self._free = tuple(self._flow(0, free) for free in (_FREE[0]._replace(load=start), *_FREE[1:]))

    def _flow(self, first: int, begun: Begun) -> FlowTimes:
        run = FlowRun(self.slots, begun)
        run.passed += self.work.latency
        for block in self.work.blocks[first:]:
            run.block(block, self.response, lambda step, time: time + block.steps[step][1])  # noqa: B023  # called at once
        return self.ended(run)

    def ended(self, run: FlowRun) -> FlowTimes:
        """The times behind all blocks."""
        return FlowTimes(run.load, run.mac, run.output, run.store, run.store + self.rest)

    @property
    def stream(self) -> tuple[int, ...]:
        """The blocks as numbers: how many there are, response, cycles from the last word to the last response, and block by block.

        Of a block the number of steps, cycles of output and stores, and step by step those of the fetches and of the MACs, whether it goes
        on with the IFM of the step before, numbers of transactions of weights and of scales, and the words of each.
        """
        if self._stream is None:
            numbers = [len(self.work.blocks), self.response, self.rest]
            for block in self.work.blocks:
                numbers += [len(block.steps), block.output, block.stored]
                for (fetched, _, macs, continues), (weights, scales) in zip(block.steps, block.reads, strict=True):
                    numbers += [fetched, macs, continues, len(weights), len(scales), *weights, *scales]
            self._stream = tuple(numbers)
        return self._stream

    def _from(self, first: int) -> FlowTimes | None:
        """The flow of the blocks from ``first`` on, of which the first ones' constants may be there; None if there are none."""
        if first not in self._released:
            few, start = first >= len(self.work.blocks), 0 if first else self._timing.kernel_start_cycles
            self._released[first] = None if few else self._flow(first, _RELEASED._replace(load=start))
        return self._released[first]

    def behind(self, before: FlowTimes, distance: int | None, drained: int = 0) -> FlowTimes:
        """The times behind a kernel's, of which all blocks are stored when block ``distance`` of this one is loaded (None: it never waits).

        ``drained`` cycles pass from there on before the first block is loaded.
        """
        # The decoder is handed a kernel when the input load has done with the one before.
        *units, finish = before
        found = [max(free[unit] + at for free, at in zip(self._free, units, strict=True)) for unit in range(RELEASED)]
        for unit, late in enumerate(self.released(distance, drained)):
            found[unit] = max(found[unit], finish + late)
        load, mac, output, store = found
        return FlowTimes(load, mac, output, store, store + self.rest)

    @property
    def flat(self) -> tuple[int, ...]:
        """The flow as numbers: cycles from the moment on at which a unit is free until each of the four units is done.

        Those of the input load come first, then those of the MACs, of the output unit and of the write-back, and of the last response.
        """
        return (*(time for free in self._free for time in free[:RELEASED]), self.rest)

    def released(self, distance: int | None, drained: int = 0) -> tuple[int, ...]:
        """Cycles from the end of the kernel before until load, MACs, output and write-back are done, as :meth:`behind` has them."""
        found = None if distance is None else self._from(distance)
        return (LONG_AGO,) * RELEASED if found is None else tuple(drained + time for time in found[:RELEASED])
