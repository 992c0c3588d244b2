"""The cycles of one kernel on its own: a flow shop of the NPU's units, step by step and block by block."""

# ruff: noqa: FURB136  # in the search's inner loop a call of max() takes longer than all else in its line

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.cost.flat_operation import flat_decoding, flat_operation, in_block
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass
from npu_model.weight_stream.mlw_work import DecoderWork

_WORK, _FLOW = native("npu_model"), native("cascader.ethosu")
"""Compiled: the work of an operation's blocks, and what is made of it here; None if they are not built."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Cycles up to the end of a kernel; ``tail`` are those at its end in which the decoder already reads for the next one."""

    cycles: float
    tail: float


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The load of a step on the units: words and transactions of its fetches, those of its constants, MAC cycles."""

    fetched: int
    fetches: int
    words: int
    reads: int
    mac_cycles: int


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """The load of an OFM block on the units: its steps, output cycles, stored words. The scales are among the first step's constants."""

    steps: tuple[StepLoad, ...]
    output_cycles: int
    stored: int


_HEAD, _BLOCK, _STEP = 4, 3, 5
"""Integers before the blocks of a flat load, before the steps of a block, and of a step."""


@dataclass(frozen=True, slots=True)
class KernelLoad:
    """The load of a kernel on the units, block by block, as a row of integers; blocks that are equal are there once.

    The row has the number of places and of kinds of blocks; ``maps`` and ``constants``; at every place a kind; where each kind begins;
    and of each kind output cycles, stored words, number of steps and the integers of its steps.
    """

    flat: memoryview

    @classmethod
    def of(cls, order: Sequence[int], kinds: Sequence[BlockLoad]) -> KernelLoad:
        """The load of a kernel whose blocks are of these ``kinds`` in this ``order``."""
        maps = constants = 0
        for number, times in Counter(order).items():
            maps += times * (kinds[number].stored + sum([step.fetched for step in kinds[number].steps]))
            constants += times * sum([step.words for step in kinds[number].steps])
        flat = array("q", (len(order), len(kinds), maps, constants, *order))
        begin = len(flat) + len(kinds)
        for block in kinds:
            flat.append(begin)
            begin += _BLOCK + _STEP * len(block.steps)
        for block in kinds:
            flat.extend((block.output_cycles, block.stored, len(block.steps)))
            flat.extend(chain.from_iterable((s.fetched, s.fetches, s.words, s.reads, s.mac_cycles) for s in block.steps))
        return cls(memoryview(flat.tobytes()).cast("q"))

    @property
    def maps(self) -> int:
        """Words of its feature maps, read and written."""
        return self.flat[2]

    @property
    def constants(self) -> int:
        """Words of its constants."""
        return self.flat[3]

    @property
    def places(self) -> int:
        """Blocks."""
        return self.flat[0]

    @property
    def kinds(self) -> tuple[BlockLoad, ...]:
        """Blocks that are not equal."""
        flat, count = self.flat, self.flat[1]
        found = []
        for begin in flat[_HEAD + self.places : _HEAD + self.places + count]:
            output_cycles, stored, steps = flat[begin : begin + _BLOCK]
            numbers = iter(flat[begin + _BLOCK : begin + _BLOCK + _STEP * steps])
            found.append(BlockLoad(tuple(StepLoad(*five) for five in zip(*[numbers] * _STEP, strict=True)), output_cycles, stored))
        return tuple(found)

    @property
    def order(self) -> Sequence[int]:
        """The kind of each block, in their order."""
        return self.flat[_HEAD : _HEAD + self.places]

    @property
    def blocks(self) -> tuple[BlockLoad, ...]:
        """The blocks in their order."""
        kinds = self.kinds
        return tuple(kinds[number] for number in self.order)

    @property
    def stored(self) -> int:
        """Words of its feature maps that it writes."""
        flat, table = self.flat, _HEAD + self.places
        return sum([flat[flat[table + number] + 1] for number in self.order])

    def words(self, first: int, last: int) -> tuple[int, int, int]:
        """Words of feature maps read and written, and of constants, of some blocks alone."""
        flat, table = self.flat, _HEAD + self.places
        fetched = stored = constants = 0
        for number in self.order[first:last]:
            begin = flat[table + number]
            steps = begin + _BLOCK
            end = steps + _STEP * flat[begin + 2]
            fetched += sum(flat[steps:end:_STEP])
            stored += flat[begin + 1]
            constants += sum(flat[steps + 2 : end : _STEP])
        return fetched, stored, constants


def _words(reads: Iterable[Read], burst: int) -> tuple[int, int]:
    """Words of some reads, and transactions of at most ``burst`` words, their borders not aligned."""
    runs = [run for read in reads for run in read.runs]
    return sum(runs), sum([-(-run // burst) for run in runs])


def _block_load(job: BlockJob, map_burst: int, burst: int) -> BlockLoad:
    steps = []
    for number, step in enumerate(job.steps):
        constants = step.weights if number else step.weights + job.scales
        steps.append(StepLoad(*_words(step.fetches, map_burst), *_words(constants, burst), step.mac_cycles))
    return BlockLoad(tuple(steps), job.output_cycles, sum(job.writes))


def kernel_load(jobs: Sequence[BlockJob], map_burst: int = 4, burst: int = 8) -> KernelLoad:
    """The load of a kernel's jobs, with transactions of so many words for feature maps and constants; equal jobs are counted once."""
    numbers: dict[int, int] = {}
    kinds: list[BlockLoad] = []
    for job in jobs:
        if id(job) not in numbers:
            numbers[id(job)] = len(kinds)
            kinds.append(_block_load(job, map_burst, burst))
    return KernelLoad.of([numbers[id(job)] for job in jobs], kinds)


def operation_load(
    op: KernelOperation,
    accelerator: Accelerator,
    work: tuple[DecoderWork, ...] = (),
    map_burst: int = 4,
    burst: int = 8,
    timing: TimingParameters = DEFAULT_TIMING,
) -> KernelLoad:
    """The load of an operation; ``work`` is the decoder's work for the weight stream of each core, none if unknown."""
    if _WORK is None or _FLOW is None:
        return kernel_load(like_jobs(op, accelerator, timing, work), map_burst, burst)
    return _row_load(flat_operation(op, accelerator, timing, is_known=bool(work)), work, map_burst, burst)


def block_load(
    op: KernelOperation, block: Shape3D, accelerator: Accelerator, work: tuple[DecoderWork, ...], row: array[int], sources: Sources
) -> KernelLoad:
    """As :func:`operation_load`, of an operation in another ``block``; ``row`` is that of :func:`flat_operation`, with any block."""
    map_burst, burst = sources.maps.burst, sources.constants.burst
    if _WORK is None or _FLOW is None:
        return operation_load(replace(op, block=block), accelerator, work, map_burst, burst, sources.timing)
    return _row_load(in_block(row, block), work, map_burst, burst)


def _row_load(row: array[int], work: tuple[DecoderWork, ...], map_burst: int, burst: int) -> KernelLoad:
    assert _WORK is not None  # noqa: S101  # whoever calls knows
    assert _FLOW is not None  # noqa: S101  # the same
    flat: bytes = _FLOW.kernel_load(memoryview(_WORK.block_work(row, flat_decoding(work))).cast("q"), map_burst, burst)
    return KernelLoad(memoryview(flat).cast("q"))


_StepCosts = tuple[float | None, float | None, float, int]
"""Cycles of a step: its fetches on their port, its constants on theirs (None where there are none) and at their sustained rate, MACs."""

_BlockCosts = tuple[list[_StepCosts], int, float]
"""Cycles of a block: its steps, its output, its stores."""


def _block_costs(block: BlockLoad, sources: Sources) -> _BlockCosts:
    maps, home = sources.maps, sources.constants
    steps: list[_StepCosts] = [
        (
            maps.cycles(step.fetched, step.fetches) if step.fetched else None,
            home.cycles(step.words, step.reads) if step.words else None,
            step.words * home.sustained,
            step.mac_cycles,
        )
        for step in block.steps
    ]
    return steps, block.output_cycles, block.stored * maps.word


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
        self, kernel: KernelLoad, sources: Sources, *, led: bool = False, distance: int = 0, first: int = 0, last: int | None = None
    ) -> Flow:
        """One more kernel, from its first fetch to its last store; ``distance`` blocks of the one before may be unfinished then.

        With ``led`` the weights of the first two steps are there already, if they may be fetched ahead: the decoder does not wait for the
        kernel before. Blocks before the ``first`` and from the ``last`` on are left out.
        """
        last = kernel.places if last is None else last
        if _FLOW is not None:
            return Flow(*_FLOW.kernel_flow(kernel.flat, sources.flat, self._units, first, last, led, distance))
        steps_led = 2 if led and sources.timing.weights_ahead else 0
        return self._run(kernel, sources, steps_led, distance, range(first, last))

    def _run(self, kernel: KernelLoad, sources: Sources, steps_led: int, distance: int, places: range) -> Flow:
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
                if steps_led:
                    steps_led -= 1
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


def kernel_flow(kernel: KernelLoad, sources: Sources, *, led: bool = False) -> Flow:
    """A kernel that has the units and the ports to itself."""
    return Pipeline().run(kernel, sources, led=led)
