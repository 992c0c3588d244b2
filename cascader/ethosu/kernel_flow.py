"""The cycles of one kernel on its own: a flow shop of the NPU's units, step by step and block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from npu_model.block_jobs import BlockJob, Read


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


def beats(reads: Iterable[Read]) -> int:
    """Data beats of some reads."""
    return sum(sum(read.runs) for read in reads)


def kernel_flow(jobs: Sequence[BlockJob], arena: Source, constants: Source, *, led: bool = False) -> Flow:
    """A kernel that has the ports to itself, from the first fetch to the last store.

    Each unit takes its work in order and needs a free one of two slots behind it: IFM load and weight decoder run at most
    two steps ahead of the MAC array, that two blocks ahead of the output unit, that two ahead of the write-back. With
    ``led`` the weights of the first two steps are there already: the decoder does not wait for the kernel before.
    """
    load = decoder = mac = mac_before = output = output_before = store = store_before = 0.0
    step_number = 0
    for job in jobs:
        scales = beats(job.scales)
        for number, step in enumerate(job.steps):
            free = mac_before
            mac_before = mac
            if step.fetches:
                load = max(load, free) + arena.latency + beats(step.fetches) * arena.rate
            words = beats(step.weights) + (scales if number == 0 else 0)
            if words and (step_number > 1 or not led):
                decoder = max(decoder, free) + constants.latency + words * constants.rate
            begin = max(mac, load, decoder, output_before if number == 0 else 0.0)
            mac = begin + step.mac_cycles
            step_number += 1
        begin = max(output, mac, store_before)
        output_before, output = output, begin + job.output_cycles
        store_before, store = store, max(store, output) + sum(job.writes) * arena.rate
    return Flow(store, store - max(load, decoder))
