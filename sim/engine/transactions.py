"""Read transactions of a Program, counted from its blocks without timing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import PHASES, BlockJob, Read, program_jobs
from npu_model.cost.timed import own_jobs
from npu_model.cost.traffic import read_runs, read_starts
from npu_model.cost.traversal import Box, ifm2_box, ifm_box, ifm_channel_steps, sub_kernels
from npu_model.memory.system import DRIVER_BURST_BEATS, MemorySystem
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Program
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from sim.engine.commands import copy_chunks
from sim.engine.ports import transactions
from sim.engine.terms import Channel, burst_beats, fetch_words


def pieces(start: int, words: int, burst: int, line: int) -> int:
    """Transactions of a run of ``words`` from word ``start``: at most ``burst`` words each, and none crosses a multiple of ``line``.

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


class _Reads:
    """Read transactions of both ports, counted read by read."""

    def __init__(self, device: Accelerator, system: MemorySystem, timing: TimingParameters) -> None:
        self._device, self._system, self._timing = device, system, timing
        self._word = device.port_bytes_per_cycle
        self.found = [0, 0]

    def constants(self, read: Read, channel: Channel, *, goes_on: bool = False) -> None:
        """A read whose transactions end at multiples of their length. With ``goes_on``, an earlier read has begun the first transaction."""
        port = self._system.port_of(read.region)
        burst = burst_beats(self._system.ports[port], channel, self._device, self._timing)
        self.found[port] += len(transactions(read.runs, burst, read.phase)) - (goes_on and read.phase % burst > 0)

    def ifm(self, feature_map: FeatureMap, box: Box) -> None:
        """A box of an IFM, whose transactions do not cross a multiple of the driver's burst."""
        port = self._system.port_of(feature_map.region)
        memory = self._system.ports[port]
        burst = burst_beats(memory, Channel.IFM, self._device, self._timing)
        line = max(1, min(memory.burst_bytes // self._word, DRIVER_BURST_BEATS))
        for start, words in zip(read_starts(feature_map, box), read_runs(feature_map, box, self._word), strict=True):
            is_cut = self._timing.aligned_bursts
            self.found[port] += pieces(start // self._word, words, burst, line) if is_cut else ceil_div(words, burst)

    def chain(self, jobs: Iterable[BlockJob]) -> None:
        """All reads of a chain of kernels."""
        for job in jobs:
            for scale in job.scales:
                self.constants(scale, Channel.SCALES)
            for step in job.steps:
                for channel, found in ((Channel.WEIGHTS, step.weights), (Channel.IFM, step.fetches)):
                    for read in found:
                        self.constants(read, channel)

    def kernel(self, op: KernelOperation, jobs: Iterable[BlockJob]) -> None:
        """All reads of a kernel. A weight stream continues where the previous step ended."""
        ends: dict[int, int] = {}
        for job in jobs:
            for scale in job.scales:
                self.constants(scale, Channel.SCALES)
            for step in job.steps:
                for core, weight in enumerate(step.weights):
                    self.constants(weight, Channel.WEIGHTS, goes_on=ends.get(core) == weight.phase)
                    ends[core] = (weight.phase + sum(weight.runs)) % PHASES
            for feature_map, box in _areas(op, job):
                self.ifm(feature_map, box)


def read_transactions(program: Program, device: Accelerator, system: MemorySystem, timing: TimingParameters) -> tuple[int, int]:
    """Transactions that read through AXI0 and AXI1: kernels, transfers and the command fetch.

    A weight stream continues across steps: if a step ends inside a transaction, the next step continues it. No transaction crosses a
    multiple of the driver's burst; IFM transactions do not either.
    """
    reads = _Reads(device, system, timing)
    timed = own_jobs(program, device, timing)
    for jobs in () if timed is None else timed.jobs.values():
        reads.chain(jobs)
    for index, jobs in (program_jobs(program, device, timing) if timed is None else {}).items():
        op = program.operations[index]
        assert isinstance(op, KernelOperation)  # noqa: S101  # it has jobs
        reads.kernel(op, jobs)
    for transfer in program.transfers:
        for start, _, beats in copy_chunks(transfer, device.port_bytes_per_cycle, aligned=timing.aligned_bursts):
            reads.constants(Read(transfer.source.region, (beats,), start), Channel.MEM2MEM)
    reads.found[system.command_port] += ceil_div(sum(program.words), fetch_words(device))
    return reads.found[0], reads.found[1]
