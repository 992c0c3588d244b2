"""The cycles of one kernel alone: a flow shop of the NPU's units, step by step and block by block."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP
from cascader.ethosu.cost.kernel_load import STEP, BlockLoad, KernelLoad
from cascader.ethosu.cost.memory_path import Sources
from npu_model.native import native

_FLOW = native("cascader.ethosu")
"""The compiled flow of a load; None if it is not built."""


class Flow(Struct, frozen=True):
    """Cycles up to the end of a kernel; ``tail`` is the cycles at its end in which the decoder already reads for the next kernel."""

    cycles: float
    tail: float


class _Step(NamedTuple):
    """Cycles of a step: its fetches on their port (None if there are none) and into the input buffer, its constants and its MACs.

    ``fills`` is the cycles in which the loads of its slot, and of its block's next slot (None: the next block's), fill the input buffer.

    Constants have their cycles on their port (None without constants) and at their sustained rate. A step ends and begins within a burst,
    so half a burst is lost while one of the two parts counts under the cap. Bursts that are requested ahead wait for each other only in the
    long run. ``goes_on`` says that it continues in the previous step's slot.
    """

    fetch: float | None
    fill: float
    read: float | None
    sustained: float
    mac: int
    goes_on: int
    fills: tuple[float, float | None] = (0.0, None)


_BlockCosts = tuple[list[_Step], int, float, float]
"""Cycles of a block: its steps, its output, its stores, and its stores in the long run, in which they wait for responses."""


def _block_costs(block: BlockLoad, sources: Sources) -> _BlockCosts:
    output_cycles, stored, _, stores, *numbers = block
    maps, home, bursts = sources.maps, sources.weights, sources.access.weight_bursts > 0
    steps = [
        _Step(
            maps.cycles(fetched, fetches) if fetched else None,
            float(fetched * sources.fill),
            (words * home.word if bursts else home.cycles(words, reads)) if words else None,
            max((words + home.burst / 2) * home.sustained, home.cycles(words, reads) if bursts else 0.0),
            mac_cycles,
            goes_on,
        )
        for fetched, fetches, words, reads, mac_cycles, goes_on in zip(*[iter(numbers)] * STEP, strict=True)
    ]
    path = stored * sources.target.word
    return _filled(steps) if sources.turn_share > 1 else steps, output_cycles, path, sources.writes.cycles(stored, stores)


def _filled(steps: Sequence[_Step]) -> list[_Step]:
    """The steps of a block, with the fills of those that take a slot."""
    fill, following, found = 0.0, None, []
    for step in reversed(steps):
        fill += step.fill
        found.append(step if step.goes_on else step._replace(fills=(fill, following)))
        if not step.goes_on:
            fill, following = 0.0, fill
    return found[::-1]


class _Units:
    """When each unit is free, in cycles, and the last stores. The numbers are in the order of the compiled core's ``Units``."""

    # Ends of: load, decoder, MAC array and its step before, output and its block before, store and its block before, port and allowance.
    # Times of the last fetch request, of the free slots (the filled slot and its predecessor) and of the free input buffer. Times of the
    # last request for constants, of their free path, and of the MAC array's step before the last. Times of the loads of this
    # slot and of the next one, first and last words, and of the response to the last store.
    __slots__ = (
        *("latency", "load", "decoder", "mac", "mac_before", "output", "output_before", "store", "store_before", "port", "allowance"),
        *("asked", "slot", "slot_before", "filled", "begun", "stream", "mac_earlier"),
        *("load_from", "load_to", "next_from", "next_to", "answered"),
        *("stores", "sources", "ahead", "bursts"),
    )
    latency: float
    load: float
    decoder: float
    mac: float
    mac_before: float
    output: float
    output_before: float
    store: float
    store_before: float
    port: float
    allowance: float
    asked: float
    slot: float
    slot_before: float
    filled: float
    begun: float
    stream: float
    mac_earlier: float
    load_from: float
    load_to: float
    next_from: float
    next_to: float
    answered: float

    def __init__(self, state: array[float], sources: Sources) -> None:
        for name, value in zip(self.__slots__, state[:_STORES], strict=False):
            setattr(self, name, value)
        self.stores = deque(state[_STORES + 1 : _STORES + 1 + int(state[_STORES])], maxlen=MAX_BLOCKDEP + 1)
        self.sources = sources
        self.ahead, self.bursts = sources.access.ifm_ahead, sources.access.weight_bursts > 0

    def state(self) -> array[float]:
        """The numbers in the compiled core's form."""
        units = *(getattr(self, name) for name in self.__slots__[:_STORES]), len(self.stores), *self.stores
        return array("d", (*units, *[0.0] * (_STATE - len(units))))

    def handed(self, cycle: float) -> None:
        """Give the decoder a kernel, or a block, at a cycle or later."""
        if self.bursts:
            self.begun = max(self.begun, cycle)
        else:
            self.decoder = max(self.decoder, cycle)

    @property
    def loaded(self) -> float:
        """When the IFM load is done with its kernel or block: at the last fetch that it requests, or once all data have arrived."""
        return self.asked if self.ahead else self.load

    def begin(self, released: float, start_cycles: int) -> None:
        """Begin with a block that may be fetched from a cycle on; ``start_cycles`` is the cycles of a kernel before its first block."""
        following = max(self.loaded, released)
        if not self.sources.timing.weights_ahead:
            self.handed(following)
        if self.ahead:
            self.asked = following + start_cycles
        else:
            self.load = following + start_cycles

    def take(self, step: _Step, following: float) -> None:
        """Take a slot for a step and those that continue in it; the next block's first slot is filled in ``following`` cycles."""
        latency, (fill, next_fill) = self.sources.maps.latency, step.fills
        self.asked = max(self.asked, self.mac if self.sources.single else self.slot_before)
        self.load_from = max(self.filled, self.asked + latency)
        self.load_to = self.load_from + fill
        self.next_from = max(self.load_to, self.slot + latency)
        self.next_to = self.next_from + (following if next_fill is None else next_fill)
        self.slot_before = self.slot

    def fetch(self, step: _Step) -> None:
        """Fetch a step's operands."""
        latency = self.sources.maps.latency
        if step.fetch is None:
            return
        start = (self.asked if self.ahead else max(self.load, self.mac_before)) + latency
        self.port = max(self.port, start) + step.fetch
        if self.ahead:
            self.filled = max(self.filled, start) + step.fill
            self.load = max(self.load, self.port, self.filled)
        else:
            self.load = self.port

    def read(self, read: float, sustained: float) -> None:
        """Read a step's constants once a slot is free and all earlier ones are read, or burst by burst as far ahead as a core may."""
        shared, latency = self.sources.shared, self.sources.constants.latency
        if self.bursts:
            start = self.begun = max(self.begun, self.mac_earlier)
            self.stream = self.decoder = self.beside_loads(max(self.stream, start + latency), read)
            if shared:
                self.port = max(self.port, start + latency) + read
                self.decoder = max(self.decoder, self.port)
        else:
            start = max(self.decoder, self.mac_before)
            if shared:
                self.decoder = self.port = max(self.port, start + latency) + read
            else:
                self.decoder = start + latency + read
        if self.bursts or not shared:
            self.allowance = max(self.allowance, start) + sustained
            self.decoder = max(self.decoder, self.allowance)

    def beside_loads(self, cycle: float, read: float) -> float:
        """The end of ``read`` cycles on the path from a cycle on, slower while loads that fill the input buffer take most turns."""
        slow, ahead = self.sources.turn_share, self.sources.issued_ahead
        if slow <= 1:
            return cycle + read
        goes_on = self.next_from <= self.load_to
        runs = (self.load_from, (self.next_to if goes_on else self.load_to) - ahead), (self.next_from, self.next_to - ahead)
        for begin, end in runs:
            before = max(0.0, begin - cycle)
            if read > before and end > max(cycle, begin):
                meanwhile = min(read - before, (end - cycle - before) / slow)
                cycle += before + meanwhile * slow
                read -= before + meanwhile
        return cycle + read

    def work(self, block: _BlockCosts, steps_prefetched: int, following: int, after: _BlockCosts | None) -> int:
        """Work on a block whose first steps have their constants already; returns how many of these steps are left.

        So many blocks are ``following``, the next one is ``after``.
        """
        steps, output_cycles, stored, answered = block
        single, response = self.sources.single, self.sources.slot_response
        if single:
            # The output unit's slot is for the block, so only its first step waits for the slot.
            self.output_before, self.store_before = self.output, self.store
        begin = max(self.mac, self.output_before)
        for step in steps:
            self.mac_before = self.mac if single else self.mac_before
            if self.ahead and not step.goes_on:
                self.take(step, after[0][0].fills[0] if after and after[0] else 0.0)
            self.fetch(step)
            if steps_prefetched:
                steps_prefetched -= 1
            elif step.read is not None:
                self.read(step.read, step.sustained)
            self.mac_earlier, self.mac_before = self.mac_before, self.mac
            begin = self.mac = self.slot = max(begin, self.load, self.decoder) + step.mac
        self.output_before, self.output = self.output, max(self.output, self.mac, self.store_before + response) + output_cycles
        store, fetches = max(self.store + response, self.output), any(step.fetch is not None for step in steps)
        if self.sources.stores_queue and fetches and following * sum(not step.goes_on for step in steps) >= 2:
            # A load into one of the two slots is requested between two stores. The second store passes the data path behind it.
            store = max(store, self.store + self.sources.maps.latency)
        if self.sources.most_writes:
            # A store may be sent once there is a response to one of those that are under way, and a response comes after its last word.
            self.answered = max(self.answered, store) + answered
            store = max(store, self.answered - self.sources.write_latency - stored)
        self.store_before, self.store = self.store, store + stored
        self.stores.append(self.store)
        return steps_prefetched

    def flow(self) -> Flow:
        """State of the finished work: the decoder may read for the next kernel once it is done, a slot is free and the IFM load is done."""
        done = self.begun if self.bursts else self.decoder
        free = self.mac_earlier if self.bursts else self.mac_before
        return Flow(self.store, self.store - max(done, free, self.loaded))


_STORES = 23
"""Position of the number of stores in the state of a pipeline."""

_PORT = _Units.__slots__.index("port")
"""Position of the port in the state of a pipeline."""

_STATE = _STORES + 1 + MAX_BLOCKDEP + 1
"""Numbers in the state of a pipeline."""

_IDLE = array("d", [0.0] * _STATE)
"""State of an idle pipeline."""


class Pipeline:
    """The NPU's units and when each is free, in cycles from the first fetch of the first kernel.

    Each unit takes its work in order and needs a free slot after it, out of two slots or one. IFM load and weight decoder run at most two
    steps ahead of the MAC array. The MAC array runs at most two blocks ahead of the output unit, and the output unit two ahead of the
    write-back. If fetches and constants share a port, they pass it in the order of the steps. ``latency`` is the cycles until a stored
    block may be read.

    If the device requests ahead (its :class:`PortRates`), a fetch is requested once a slot is free, which continuing steps share. Constants
    are requested once one of three slots is free. The latency of one transfer passes while others move.
    """

    def __init__(self, latency: int = 0) -> None:
        self._state = _IDLE[:]
        self._state[0] = latency

    def copied(self) -> Pipeline:
        """The units in their current state, to continue from it in another way."""
        other: Pipeline = Pipeline.__new__(Pipeline)
        other._state = self._state[:]
        return other

    def unordered(self) -> Pipeline:
        """Like :meth:`copied`, without stores that a later kernel would wait for."""
        other: Pipeline = self.copied()
        other._state[_STORES] = 0.0
        return other

    def behind_loads(self) -> tuple[float, int]:
        """Cycles from the last word on the port to the last store, and how many of the last blocks are stored in them."""
        port, stores = self._state[_PORT], self._state[_STORES + 1 : _STORES + 1 + int(self._state[_STORES])]
        return (stores[-1] - port, sum(store > port for store in stores)) if stores else (0.0, 0)

    def run(
        self, kernel: KernelLoad, sources: Sources, *, prefetched: bool = False, distance: int = 0, first: int = 0, last: int | None = None
    ) -> Flow:
        """One more kernel, from its first fetch to its last store; ``distance`` blocks of the previous one may be unfinished then.

        With ``prefetched`` the weights of the first two steps are there already, if they may be fetched ahead: the decoder does not wait
        for the kernel before. Blocks before the ``first`` and from the ``last`` on are left out.
        """
        last = kernel.places if last is None else last
        if _FLOW is not None:
            return Flow(*_FLOW.kernel_flow(kernel.flat, sources.flat, self._state, first, last, prefetched, distance))
        steps_prefetched = 2 if prefetched and sources.timing.weights_ahead else 0
        return self._run(kernel, sources, steps_prefetched, distance, range(first, last))

    def _run(self, kernel: KernelLoad, sources: Sources, steps_prefetched: int, distance: int, places: range) -> Flow:
        units = _Units(self._state, sources)
        # Times at which the first blocks may be fetched, one after the other, and then all: as BLOCKDEP says. After a kernel that must be
        # stored entirely, one more response follows.
        visible = units.latency if distance else units.latency * (1 + sources.timing.drain_responses)
        stores = units.stores
        released = [stores[-1 - ahead] + visible if ahead < len(stores) else 0.0 for ahead in range(distance, -1, -1)]
        costs, order = [_block_costs(kind, sources) for kind in kernel.kinds], kernel.order
        # The decoder gets a kernel when the IFM load has finished the previous kernel.
        units.handed(units.loaded)
        for number, place in enumerate(places):
            units.begin(released[min(number, distance)], 0 if place else sources.start_cycles)
            following = len(places) - 1 - number
            after = costs[order[place + 1]] if following else None
            steps_prefetched = units.work(costs[order[place]], steps_prefetched, following, after)
        self._state = units.state()
        return units.flow()


def kernel_flow(kernel: KernelLoad, sources: Sources, *, prefetched: bool = False) -> Flow:
    """A kernel that has the units and the ports to itself."""
    return Pipeline().run(kernel, sources, prefetched=prefetched)
