"""The cycles of one kernel on its own: a flow shop of the NPU's units, step by step and block by block."""

# ruff: noqa: FURB136  # in the search's inner loop a call of max() takes longer than all else in its line

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP
from cascader.ethosu.cost.memory_path import Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING
from npu_model.weight_stream.mlw_work import DecoderWork


@dataclass(frozen=True, slots=True)
class Flow:
    """Cycles up to the end of a kernel; ``tail`` are those at its end in which the decoder already reads for the next one."""

    cycles: float
    tail: float


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What a step asks of the units: words and transactions of its fetches, those of its constants, MAC cycles."""

    fetched: int
    fetches: int
    words: int
    reads: int
    mac_cycles: int


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """What an OFM block asks of the units: its steps, output cycles, stored words. The scales are among the first step's constants."""

    steps: tuple[StepLoad, ...]
    output_cycles: int
    stored: int


@dataclass(frozen=True, slots=True)
class KernelLoad:
    """What a kernel asks of the units, block by block; in all, words of its feature maps (both directions) and of its constants."""

    blocks: tuple[BlockLoad, ...]
    maps: int
    constants: int


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
    loads: dict[int, BlockLoad] = {}
    for job in jobs:
        if id(job) not in loads:
            loads[id(job)] = _block_load(job, map_burst, burst)
    maps = constants = 0
    for number, times in Counter(map(id, jobs)).items():
        block = loads[number]
        maps += times * (block.stored + sum([step.fetched for step in block.steps]))
        constants += times * sum([step.words for step in block.steps])
    return KernelLoad(tuple([loads[id(job)] for job in jobs]), maps, constants)


@lru_cache(maxsize=4096)
def operation_load(
    op: KernelOperation, accelerator: Accelerator, work: tuple[DecoderWork, ...] = (), map_burst: int = 4, burst: int = 8
) -> KernelLoad:
    """The load of an operation; ``work`` is the decoder's work for the weight stream of each core, none if unknown."""
    return kernel_load(like_jobs(op, accelerator, work=work), map_burst, burst)


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


def _costs(kernel: KernelLoad, sources: Sources) -> Iterator[_BlockCosts]:
    """What the blocks of a kernel cost, in their order; those that are one object are asked for once."""
    known: dict[int, _BlockCosts] = {}
    for block in kernel.blocks:
        number = id(block)
        if number not in known:
            known[number] = _block_costs(block, sources)
        yield known[number]


class Pipeline:
    """The NPU's units and when each is free, in cycles from the first fetch of the first kernel.

    Each unit takes its work in order and needs a free one of two slots behind it: IFM load and weight decoder run at most
    two steps ahead of the MAC array, that two blocks ahead of the output unit, that two ahead of the write-back. Where fetches and
    constants share a port they pass it in the order of the steps. ``latency`` are the cycles until a stored block may be read.
    """

    def __init__(self, latency: int = 0) -> None:
        self._latency = latency
        self._load = self._decoder = self._mac = self._mac_before = self._output = self._output_before = 0.0
        self._store = self._store_before = self._port = self._allowance = 0.0
        self._stores: tuple[float, ...] = ()

    def _released(self, distance: int) -> list[float]:
        """When the first blocks of the next kernel may be fetched, one after the other, and then all: as BLOCKDEP says."""
        stores = self._stores
        if not distance and stores:
            return [stores[-1] + self._latency * (1 + DEFAULT_TIMING.drain_responses)]
        return [stores[-1 - ahead] + self._latency if ahead < len(stores) else 0.0 for ahead in range(distance, -1, -1)]

    def copied(self) -> Pipeline:
        """The units as they are now, to go on from in another way."""
        return copy(self)

    def run(self, kernel: KernelLoad, sources: Sources, *, led: bool = False, distance: int = 0) -> Flow:
        """One more kernel, from its first fetch to its last store; ``distance`` blocks of the one before may be unfinished then.

        With ``led`` the weights of the first two steps are there already: the decoder does not wait for the kernel before.
        """
        latency, home_latency, shared = sources.maps.latency, sources.constants.latency, sources.shared
        load, decoder, port, allowance = self._load, self._decoder, self._port, self._allowance
        mac, mac_before, output, output_before = self._mac, self._mac_before, self._output, self._output_before
        store, store_before, steps_led = self._store, self._store_before, 2 if led else 0
        released, stores = self._released(distance), deque(self._stores, maxlen=MAX_BLOCKDEP + 1)
        # The decoder is handed a kernel when the IFM load has done with the one before.
        decoder = max(decoder, load)
        for number, (steps, output_cycles, stored) in enumerate(_costs(kernel, sources)):
            load = max(load, released[min(number, distance)])
            # The output unit's slot is for the block, so that only its first step waits for it.
            begin = mac if mac > output_before else output_before
            for fetch, read, sustained, mac_cycles in steps:
                if fetch is not None:
                    start = (load if load > mac_before else mac_before) + latency
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
            output_before, output = output, max(output, mac, store_before) + output_cycles
            store_before, store = store, max(store, output) + stored
            stores.append(store)
        self._load, self._decoder, self._port, self._allowance = load, decoder, port, allowance
        self._mac, self._mac_before, self._output, self._output_before = mac, mac_before, output, output_before
        self._store, self._store_before, self._stores = store, store_before, tuple(stores)
        return Flow(store, store - max(decoder, mac_before, load))


def kernel_flow(kernel: KernelLoad, sources: Sources, *, led: bool = False) -> Flow:
    """A kernel that has the units and the ports to itself."""
    return Pipeline().run(kernel, sources, led=led)
