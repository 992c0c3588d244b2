"""Read transactions of a Program, counted from its blocks without any timing."""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import PHASES, BlockJob, Read, program_jobs
from npu_model.cost.traffic import read_runs, read_starts
from npu_model.cost.traversal import Box, ifm2_box, ifm_box, ifm_channel_steps, sub_kernels
from npu_model.memory.system import DRIVER_BURST_BYTES, MemorySystem
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Program
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from sim.engine.commands import copy_chunks, fetch_words
from sim.engine.ports import Channel, burst_beats, transactions


def pieces(start: int, words: int, burst: int, line: int) -> int:
    """Transactions of a run of ``words`` from word ``start``: ``burst`` words at most each, of which none crosses a multiple of ``line``.

    Four words at a time, where the second four lie across the end of a line of eight:

    >>> pieces(2, 8, burst=4, line=8)
    3
    """
    count, at, end = 0, start, start + words
    while at < end:
        at = min(at + burst, end, (at // line + 1) * line)
        count += 1
    return count


def _areas(op: KernelOperation, job: BlockJob) -> Iterator[tuple[FeatureMap, Box]]:
    """The boxes that the fetches of a block read, in their order."""
    if not any(step.fetches for step in job.steps):
        return
    if op.kind is OperationKind.ELEMENTWISE:
        yield op.ifm, Box(job.box.y0, job.box.y1, job.box.x0, job.box.x1, *ifm_channel_steps(op, job.box)[0])
        if op.ifm2 is not None:
            yield op.ifm2, ifm2_box(op.ifm2.shape, job.box)
        return
    for channels in ifm_channel_steps(op, job.box):
        for part in sub_kernels(op):
            yield op.ifm, ifm_box(op, job.box, part, channels)


def read_transactions(program: Program, device: Accelerator, system: MemorySystem, timing: TimingParameters) -> tuple[int, int]:
    """Transactions that read through AXI0 and AXI1: kernels, transfers and the command fetch.

    A weight stream is one across steps: where a step ends inside a transaction, the next one goes on with it. No transaction crosses a
    multiple of the driver's burst, those of the IFM neither.
    """
    found, word = [0, 0], device.port_bytes_per_cycle

    def count(read: Read, channel: Channel, *, goes_on: bool = False) -> None:
        port = system.port_of(read.region)
        burst = burst_beats(system.ports[port], channel, device, timing)
        found[port] += len(transactions(read.runs, burst, read.phase)) - (goes_on and read.phase % burst > 0)

    def count_ifm(feature_map: FeatureMap, box: Box) -> None:
        port = system.port_of(feature_map.region)
        memory = system.ports[port]
        burst = burst_beats(memory, Channel.IFM, device, timing)
        line = max(1, min(memory.burst_bytes, DRIVER_BURST_BYTES) // word)
        for start, words in zip(read_starts(feature_map, box), read_runs(feature_map, box, word), strict=True):
            found[port] += pieces(start // word, words, burst, line if timing.aligned_bursts else burst + words + start)

    for index, jobs in program_jobs(program, device, timing).items():
        op = program.operations[index]
        assert isinstance(op, KernelOperation)  # noqa: S101  # it has jobs
        ends: dict[int, int] = {}
        for job in jobs:
            for scale in job.scales:
                count(scale, Channel.SCALES)
            for step in job.steps:
                for core, weight in enumerate(step.weights):
                    count(weight, Channel.WEIGHTS, goes_on=ends.get(core) == weight.phase)
                    ends[core] = (weight.phase + sum(weight.runs)) % PHASES
            for feature_map, box in _areas(op, job):
                count_ifm(feature_map, box)
    for transfer in program.transfers:
        for start, _, beats in copy_chunks(transfer, word, aligned=timing.aligned_bursts):
            count(Read(transfer.source.region, (beats,), start), Channel.MEM2MEM)
    found[system.command_port] += ceil_div(sum(program.words), fetch_words(device))
    return found[0], found[1]
