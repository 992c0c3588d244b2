"""The least flow of a kernel: how late its units are done at least, by when those of the kernel before it were.

The replay's units take their work in order, step by step and block by block, and hand it on: input load and weight decoder to the MAC
array, that to the output unit, and that to the write-back. Each waits for a free one of some slots behind it. Every time in such a flow is
the latest of some sums of others. So it is never earlier than with each sum made smaller, whoever else uses the ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cascader.ethosu.proof.least_work import Block, LeastWork
from npu_model.timing import TimingParameters

LONG_AGO = -(1 << 60)
"""Before any cycle, by more than any cycles that are added to it."""

FLOW, RELEASED = 14, 4
"""Numbers of :attr:`LeastFlow.flat` and of :meth:`LeastFlow.released`."""


class Times(NamedTuple):
    """Cycles at which the units are done with a kernel at the earliest: its input load, MACs, output, stores, and the last response."""

    load: int
    mac: int
    output: int
    store: int
    finish: int


START = Times(0, 0, 0, 0, 0)
"""Before the first kernel."""


def _behind(ends: Sequence[int], slots: int) -> int:
    """When a slot is free: with the end of what took it before."""
    return ends[-slots] if len(ends) >= slots else LONG_AGO


class _Run:
    """Some blocks through the units, all of which begin at cycle 0, or are ``ready`` long before."""

    def __init__(self, slots: int, *, loads: bool, decodes: bool, computes: bool) -> None:
        self._slots = slots
        self._loads = loads
        self._decodes = decodes
        self._computes = computes
        self.load = self.decoded = self.mac = self.output = self.store = 0
        self._groups: list[int] = []
        self._steps: list[int] = []
        self._outputs: list[int] = []
        self._stores: list[int] = []

    def block(self, block: Block, response: int, passed: Sequence[int] = ()) -> None:
        """One more block, the constants of whose steps are there when they have ``passed`` their port."""
        steps, output, stored = block
        slots = self._slots
        accumulators = _behind(self._outputs, slots)
        for number, (fetched, constants, macs, continues) in enumerate(steps if self._computes else ()):
            # Both may be ahead of the MAC array by as many steps as they have slots.
            if self._loads or len(self._groups) >= slots:
                self.load = (self.load if continues else max(self.load, _behind(self._groups, slots))) + fetched
            if self._decodes or len(self._steps) >= slots:
                self.decoded = max(self.decoded, _behind(self._steps, slots)) + constants
            if passed:
                self.decoded = max(self.decoded, passed[number])
            self.mac = max(self.mac, self.load, self.decoded, accumulators) + macs
            self._steps.append(self.mac)
            if continues and self._groups:
                self._groups[-1] = self.mac
            else:
                self._groups.append(self.mac)
        self.output = max(self.output, self.mac, _behind(self._stores, slots)) + output
        self._outputs.append(self.output)
        self.store = max(self.store, self.output) + stored + response
        self._stores.append(self.store)


class LeastFlow:
    """The flow of one kernel behind another one, whichever that is."""

    def __init__(self, work: LeastWork, timing: TimingParameters) -> None:
        self.work = work
        self._timing = timing
        # Where writes are not posted, the write-back waits for each response.
        self._response = 0 if timing.posted_writes else work.response
        self._rest = work.response if timing.posted_writes else 0
        self._drain = timing.drain_responses * work.response
        self._released: dict[int, Times | None] = {}
        self._loaded = self._flow(0, loads=True, decodes=True, computes=True)
        self._accumulated = self._flow(0, loads=False, decodes=False, computes=True)
        self._scaled = self._flow(0, loads=False, decodes=False, computes=False)
        self._stored = sum(stored + self._response for _, _, stored in work.blocks)
        self._gated = self._flow(0, loads=False, decodes=False, computes=True, passed=work.passed) if work.passed else None

    def _flow(self, first: int, *, loads: bool, decodes: bool, computes: bool, passed: Sequence[int] = ()) -> Times:
        run = _Run(self._timing.buffer_slots, loads=loads, decodes=decodes, computes=computes)
        run.load = self._timing.kernel_start_cycles if loads and not first else 0
        step = 0
        for block in self.work.blocks[first:]:
            run.block(block, self._response, passed[step : step + len(block[0])])
            step += len(block[0])
        return Times(run.load, run.mac, run.output, run.store, run.store + self._rest)

    def _from(self, first: int) -> Times | None:
        """The flow of the blocks from ``first`` on, of which the first ones' constants may be there; None if there are none."""
        if first not in self._released:
            few = first >= len(self.work.blocks)
            self._released[first] = None if few else self._flow(first, loads=True, decodes=False, computes=True)
        return self._released[first]

    def behind(self, before: Times, distance: int | None, drained: int = 0) -> Times:
        """The times behind a kernel's, of which all blocks are stored when block ``distance`` of this one is loaded (None: it never waits).

        ``drained`` cycles pass from there on before the first block is loaded.
        """
        loaded, added, scaled = self._loaded, self._accumulated, self._scaled
        load, mac, output, store, finish = before
        # The decoder is handed a kernel when the input load has done with the one before.
        found = (
            load + loaded.load,
            max(load + loaded.mac, mac + added.mac),
            max(load + loaded.output, mac + added.output, output + scaled.output),
            max(load + loaded.store, mac + added.store, output + scaled.store, store + self._stored),
        )
        released = None if distance is None else self._from(distance)
        if released is not None:
            begin = finish + drained
            found = (
                max(found[0], begin + released.load),
                max(found[1], begin + released.mac),
                max(found[2], begin + released.output),
                max(found[3], begin + released.store),
            )
        return Times(*found, found[3] + self._rest)

    @property
    def flat(self) -> tuple[int, ...]:
        """The flow as numbers: cycles from the moment on at which a unit is free until it and those behind it are done.

        Of the input load four, of the MACs three, of the output unit two, of the write-back one, and those of the last response; then until
        MACs, output and write-back are done from the moment on at which the constants begin to pass.
        """
        loaded, added, scaled, gated = self._loaded, self._accumulated, self._scaled, self._gated
        late = (LONG_AGO,) * 3 if gated is None else gated[1:4]
        return (*loaded[:4], *added[1:4], *scaled[2:4], self._stored, self._rest, *late)

    def released(self, distance: int | None, drained: int = 0) -> tuple[int, ...]:
        """Cycles from the end of the kernel before until load, MACs, output and write-back are done, as :meth:`behind` has them."""
        found = None if distance is None else self._from(distance)
        return (LONG_AGO,) * RELEASED if found is None else tuple(drained + time for time in found[:RELEASED])
