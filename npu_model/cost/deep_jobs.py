"""The work of an Ethos-U85's kernels in time: a chain of kernels counts as one, and its OFM blocks pass all of its members.

Cycles follow published launches on 256 MACs, not Vela's estimate. A microblock takes a cycle for each tap and 64 bits of the IFM's
channels. The output unit takes its table's cycles for every member of a chain. The accelerator's data file marks the fitted numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import PHASES, BlockJob, MacStep, Read
from npu_model.cost.cycles import output_rate
from npu_model.cost.deep_traffic import DeepBlock, Reads, deep_blocks
from npu_model.cost.traversal import Box, reduces_depth
from npu_model.program import ByteRange, KernelOperation, KernelWait, MapStorage, OperationKind, Program
from npu_model.program.check import ofm_ublock_of
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters

_NOTHING_TO_WAIT_FOR = KernelWait(1 << 16)


class TimedProgram(Struct, frozen=True):
    """A program in which each chain is one kernel at the position of its first member; ``heads`` maps the other members to it."""

    program: Program
    jobs: dict[int, tuple[BlockJob, ...]]
    heads: dict[int, int]


def deep_mac_cycles(op: KernelOperation, device: Accelerator, box: Box, channels: int) -> int:
    """Cycles in which the array multiplies, for one OFM block with the given channels of its IFM."""
    if op.kind in (OperationKind.ELEMENTWISE, OperationKind.RESIZE):
        return 0
    ublock, shape, taps = ofm_ublock_of(op, device), box.shape, op.kernel.elements
    ublocks = ceil_div(shape.height, ublock.height) * ceil_div(shape.width, ublock.width) * ceil_div(shape.depth, ublock.depth)
    if reduces_depth(op):
        return taps * ceil_div(channels * op.ifm.dtype.bits, device.array.lane_bits) * ublocks
    cycles = taps * op.ifm.dtype.bytes
    return (max(device.array.pool_floor, cycles) if op.kind is OperationKind.POOL else cycles) * ublocks


def _step_cycles(op: KernelOperation, device: Accelerator, box: Box, channels: int) -> int:
    """Cycles of the array including its filling, and at least the decoders' cycles."""
    cycles = deep_mac_cycles(op, device, box, channels)
    if op.kind is OperationKind.CONV_2D:
        weights, array = op.kernel.elements * channels * box.shape.depth, device.array
        rate = array.fast_decoded_weights if op.modes.fast_weights else array.decoded_weights * device.weight_streams
        cycles = max(cycles, ceil_div(weights, rate))
    return cycles + device.array.step_fill if op.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE) else cycles


def _is_chained(op: KernelOperation) -> bool:
    return MapStorage.CHAINED in (op.ifm.storage, op.ifm2.storage if op.ifm2 is not None else None)


def _chains(program: Program) -> Iterator[list[int]]:
    """The indices of the kernels of each chain. Most chains have one kernel."""
    chain: list[int] = []
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            if chain and not _is_chained(op):
                yield chain
                chain = []
            chain.append(index)
    if chain:
        yield chain


def _reads(reads: Reads) -> tuple[Read, ...]:
    return tuple(Read(region, runs) for region, runs in reads if sum(runs))


class _Chain:
    """The jobs of a chain of kernels."""

    def __init__(self, members: Sequence[KernelOperation], device: Accelerator, timing: TimingParameters) -> None:
        self._members, self._device, self._timing = members, device, timing
        self._first = members[0]
        self._word = device.port_bytes_per_cycle

    def _part(self, ranges: tuple[ByteRange, ...], first: int, last: int, whole: int) -> tuple[Read, ...]:
        """The words of some ranges, one after the other, from ``first`` to ``last`` of ``whole`` equal parts."""
        ranges = tuple(where for where in ranges if where.length)
        words = sum(ceil_div(where.end, self._word) - where.start // self._word for where in ranges)
        begin, end = words * first // whole, words * last // whole
        if begin == end:
            return ()
        return (Read(ranges[0].region, (end - begin,), (ranges[0].start // self._word + begin) % PHASES),)

    def _steps(self, block: DeepBlock, operands: tuple[Read, ...]) -> Iterator[MacStep]:
        """The steps of a block; the ``operands`` of the other members come with the last step."""
        op, box, depth = self._first, block.box, self._first.ofm.shape.depth
        widths = [step.c1 - step.c0 for step in block.steps] if reduces_depth(op) else [1]
        whole, ends = sum(widths), pairwise(accumulate(widths, initial=0))
        last = block.steps[-1]
        for step, (done, end) in zip(block.steps, ends, strict=True):
            begin = whole * box.c0
            first, behind = begin + done * (box.c1 - box.c0), begin + end * (box.c1 - box.c0)
            weights = self._part(op.weights, first, behind, whole * depth)
            fetches = _reads(step.fetches) + (operands if step is last else ())
            yield MacStep(fetches, weights, _step_cycles(op, self._device, box, step.c1 - step.c0))

    def jobs(self) -> Iterator[BlockJob]:
        """A job for each OFM block."""
        rate = sum((output_rate(op, self._device, self._timing) for op in self._members), Fraction(0))
        for first, *others in zip(*[deep_blocks(op, self._device) for op in self._members], strict=True):
            operands = tuple(read for block in others for read in _reads(block.fetches))
            yield BlockJob(
                box=first.box,
                steps=tuple(self._steps(first, operands)),
                scales=self._part(self._first.scales, first.box.c0, first.box.c1, self._first.ofm.shape.depth),
                output_cycles=self._timing.output_start_cycles + ceil(rate * first.box.shape.elements),
                writes=(others[-1] if others else first).writes,
            )


def timed_chains(program: Program, device: Accelerator, timing: TimingParameters) -> TimedProgram:
    """A program with the jobs of its chains."""
    operations, jobs, heads = list(program.operations), {}, {}
    for head, *others in _chains(program):
        members = [op for index in (head, *others) if isinstance(op := program.operations[index], KernelOperation)]
        jobs[head] = tuple(_Chain(members, device, timing).jobs())
        operations[head] = members[0].having(ofm=members[-1].ofm)
        for index in others:
            operations[index] = _NOTHING_TO_WAIT_FOR
            heads[index] = head
    return TimedProgram(replace(program, operations=tuple(operations)), jobs, heads)
