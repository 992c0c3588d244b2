"""The cycles of one kernel on its own: a flow shop of the NPU's units, step by step and block by block."""

# ruff: noqa: FURB136  # in the search's inner loop a call of max() takes longer than all else in its line

from __future__ import annotations

from array import array
from collections import deque

from msgspec import Struct

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP
from cascader.ethosu.cost.kernel_load import STEP, BlockLoad, KernelLoad
from cascader.ethosu.cost.memory_path import Sources
from npu_model.native import native

_FLOW = native("cascader.ethosu")
"""Compiled: the flow of a load; None if it is not built."""


class Flow(Struct, frozen=True):
    """Cycles up to the end of a kernel; ``tail`` are those at its end in which the decoder already reads for the next one."""

    cycles: float
    tail: float


_StepCosts = tuple[float | None, float | None, float, int]
"""Cycles of a step: its fetches on their port, its constants on theirs (None where there are none) and at their sustained rate, MACs.

A step ends and begins within a burst: while one of the two parts counts under the cap, half a burst is lost there.
"""

_BlockCosts = tuple[list[_StepCosts], int, float]
"""Cycles of a block: its steps, its output, its stores."""


def _block_costs(block: BlockLoad, sources: Sources) -> _BlockCosts:
    (output_cycles, stored, _, *numbers), maps, home = block, sources.maps, sources.constants
    steps: list[_StepCosts] = [
        (
            maps.cycles(fetched, fetches) if fetched else None,
            home.cycles(words, reads) if words else None,
            (words + home.burst / 2) * home.sustained,
            mac_cycles,
        )
        for fetched, fetches, words, reads, mac_cycles in zip(*[iter(numbers)] * STEP, strict=True)
    ]
    return steps, output_cycles, stored * sources.target.word


_STORES = 11
"""Place of the number of stores in the state of a pipeline."""

_STATE = _STORES + 1 + MAX_BLOCKDEP + 1
"""Numbers in the state of a pipeline."""

_IDLE = array("d", [0.0] * _STATE)
"""State of a pipeline that has done nothing."""


class Pipeline:
    """The NPU's units and when each is free, in cycles from the first fetch of the first kernel.

    Each unit takes its work in order and needs a free one of two slots (or of one) behind it: IFM load and weight decoder run at most
    two steps ahead of the MAC array, that two blocks ahead of the output unit, that two ahead of the write-back. Where fetches and
    constants share a port they pass it in the order of the steps. ``latency`` are the cycles until a stored block may be read.
    """

    def __init__(self, latency: int = 0) -> None:
        # Latency; when load, decoder, MAC array and its step before, output and its block before, store and its block before, port and
        # allowance are free; the number of the last stores, and these.
        self._units = _IDLE[:]
        self._units[0] = latency

    def copied(self) -> Pipeline:
        """The units as they are now, to go on from in another way."""
        other: Pipeline = Pipeline.__new__(Pipeline)
        other._units = self._units[:]
        return other

    def unordered(self) -> Pipeline:
        """As :meth:`copied`, with nothing stored that a further kernel would wait for."""
        other: Pipeline = self.copied()
        other._units[_STORES] = 0.0
        return other

    def run(
        self, kernel: KernelLoad, sources: Sources, *, prefetched: bool = False, distance: int = 0, first: int = 0, last: int | None = None
    ) -> Flow:
        """One more kernel, from its first fetch to its last store; ``distance`` blocks of the one before may be unfinished then.

        With ``prefetched`` the weights of the first two steps are there already, if they may be fetched ahead: the decoder does not wait
        for the kernel before. Blocks before the ``first`` and from the ``last`` on are left out.
        """
        last = kernel.places if last is None else last
        if _FLOW is not None:
            return Flow(*_FLOW.kernel_flow(kernel.flat, sources.flat, self._units, first, last, prefetched, distance))
        steps_prefetched = 2 if prefetched and sources.timing.weights_ahead else 0
        return self._run(kernel, sources, steps_prefetched, distance, range(first, last))

    def _run(self, kernel: KernelLoad, sources: Sources, steps_prefetched: int, distance: int, places: range) -> Flow:
        home_latency, shared, map_latency = sources.constants.latency, sources.shared, sources.maps.latency
        timing, single = sources.timing, sources.single
        latency, load, decoder, mac, mac_before, output, output_before, store, store_before, port, allowance, count, *last = self._units
        stores = deque(last[: int(count)], maxlen=MAX_BLOCKDEP + 1)
        # When the first blocks may be fetched, one after the other, and then all: as BLOCKDEP says.
        # Behind a kernel that must be stored entirely comes a further response.
        visible = latency if distance else latency * (1 + timing.drain_responses)
        released = [stores[-1 - ahead] + visible if ahead < len(stores) else 0.0 for ahead in range(distance, -1, -1)]
        costs, order = [_block_costs(kind, sources) for kind in kernel.kinds], kernel.order
        # The decoder is handed a kernel when the IFM load has done with the one before.
        decoder = max(decoder, load)
        for number, place in enumerate(places):
            steps, output_cycles, stored = costs[order[place]]
            load = max(load, released[min(number, distance)])
            if not timing.weights_ahead:
                decoder = max(decoder, load)
            load += 0 if place else timing.kernel_start_cycles
            # The output unit's slot is for the block, so that only its first step waits for it.
            output_before, store_before = (output, store) if single else (output_before, store_before)
            begin = mac if mac > output_before else output_before
            for fetch, read, sustained, mac_cycles in steps:
                mac_before = mac if single else mac_before
                if fetch is not None:
                    start = (load if load > mac_before else mac_before) + map_latency
                    load = port = (port if port > start else start) + fetch
                if steps_prefetched:
                    steps_prefetched -= 1
                elif read is not None:
                    start = decoder if decoder > mac_before else mac_before
                    if shared:
                        start += home_latency
                        decoder = port = (port if port > start else start) + read
                    else:
                        allowance = (allowance if allowance > start else start) + sustained
                        decoder = start + home_latency + read
                        decoder = decoder if decoder > allowance else allowance
                mac_before = mac
                begin = begin if begin > load else load
                begin = mac = (begin if begin > decoder else decoder) + mac_cycles
            output_before, output = output, max(output, mac, store_before + sources.slot_response) + output_cycles
            store_before, store = store, max(store + sources.slot_response, output) + stored
            stores.append(store)
        units = (latency, load, decoder, mac, mac_before, output, output_before, store, store_before, port, allowance, len(stores), *stores)
        self._units = array("d", (*units, *[0.0] * (_STATE - len(units))))
        return Flow(store, store - max(decoder, mac_before, load))


def kernel_flow(kernel: KernelLoad, sources: Sources, *, prefetched: bool = False) -> Flow:
    """A kernel that has the units and the ports to itself."""
    return Pipeline().run(kernel, sources, prefetched=prefetched)
