"""The cycles of one kernel on its own: a flow shop of the NPU's units, step by step and block by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from npu_model.accelerator import Accelerator
from npu_model.block_jobs import BlockJob, Read, like_jobs
from npu_model.mlw_work import DecoderWork
from npu_model.program import KernelOperation


@dataclass(frozen=True, slots=True)
class Source:
    """Where constants are read: cycles per data word in a long stream, cycles until the first one."""

    rate: float
    latency: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Cycles of a kernel; ``tail`` are those after its last fetches, in which the decoder already reads for the next one."""

    cycles: float
    tail: float


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """What an OFM block asks of the units: (fetched beats, beats of constants, MAC cycles) of each step, output cycles, stored beats.

    The scales are among the constants of the first step.
    """

    steps: tuple[tuple[int, int, int], ...]
    output_cycles: int
    stored: int


@dataclass(frozen=True, slots=True)
class KernelLoad:
    """What a kernel asks of the units, block by block; in all, beats of its feature maps (both directions) and of its constants."""

    blocks: tuple[BlockLoad, ...]
    maps: int
    constants: int


def _beats(reads: Iterable[Read]) -> int:
    """Data beats of some reads."""
    return sum([sum(read.runs) for read in reads])


def _block_load(job: BlockJob) -> BlockLoad:
    first, *others = [(_beats(step.fetches), _beats(step.weights), step.mac_cycles) for step in job.steps]
    fetched, words, cycles = first
    return BlockLoad(((fetched, words + _beats(job.scales), cycles), *others), job.output_cycles, sum(job.writes))


def kernel_load(jobs: Sequence[BlockJob]) -> KernelLoad:
    """The load of a kernel's jobs; one that is there many times is counted once."""
    loads: dict[int, BlockLoad] = {}
    for job in jobs:
        if id(job) not in loads:
            loads[id(job)] = _block_load(job)
    maps = constants = 0
    for number, times in Counter(map(id, jobs)).items():
        block = loads[number]
        maps += times * (block.stored + sum([fetched for fetched, _, _ in block.steps]))
        constants += times * sum([words for _, words, _ in block.steps])
    return KernelLoad(tuple([loads[id(job)] for job in jobs]), maps, constants)


@lru_cache(maxsize=4096)
def operation_load(op: KernelOperation, accelerator: Accelerator, work: tuple[DecoderWork, ...] = ()) -> KernelLoad:
    """The load of an operation; ``work`` is the decoder's work for the weight stream of each core, none if unknown."""
    return kernel_load(like_jobs(op, accelerator, work=work))


def kernel_flow(kernel: KernelLoad, arena: Source, constants: Source, *, led: bool = False) -> Flow:
    """A kernel that has the ports to itself, from the first fetch to the last store.

    Each unit takes its work in order and needs a free one of two slots behind it: IFM load and weight decoder run at most
    two steps ahead of the MAC array, that two blocks ahead of the output unit, that two ahead of the write-back. With
    ``led`` the weights of the first two steps are there already: the decoder does not wait for the kernel before.
    """
    load = decoder = mac = mac_before = output = output_before = store = store_before = 0.0
    steps_led = 2 if led else 0
    for block in kernel.blocks:
        # The output unit's slot is for the block, so that only its first step waits for it.
        begin = max(mac, output_before)
        for fetched, words, cycles in block.steps:
            if fetched:
                load = max(load, mac_before) + arena.latency + fetched * arena.rate
            if steps_led:
                steps_led -= 1
            elif words:
                decoder = max(decoder, mac_before) + constants.latency + words * constants.rate
            mac_before = mac
            begin = mac = max(begin, load, decoder) + cycles
        begin = max(output, mac, store_before)
        output_before, output = output, begin + block.output_cycles
        store_before, store = store, max(store, output) + block.stored * arena.rate
    return Flow(store, store - max(load, decoder))
