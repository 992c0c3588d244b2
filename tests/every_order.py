"""Every order of a tiny Program's work that the queues, the waits and BLOCKDEP do not forbid, one state after the other.

A state says how far the command processor is, which job is being fetched, which OFM block is being stored and which transfer is under
way. Two operations race if in some state that can be reached both are at work on one byte and one of them writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cached_property

from npu_model.accelerator import accelerator
from npu_model.program import (
    ActivationKind,
    ByteRange,
    DmaOperation,
    DmaWait,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Layout,
    OperationKind,
    PoolKind,
    Program,
)

SHRAM = -1
Byte = tuple[int, int]
Bytes = frozenset[Byte]
"""Bytes as pairs of a region and an address."""


class Access(Enum):
    """A use of a byte; of a kernel's buffers the hardware keeps those of two kernels apart."""

    READ = "read"
    WRITE = "write"
    BUFFER = "buffer"


CONFLICTS = {(one, other) for one in Access for other in Access if one is not other or one is Access.WRITE}

TABLE = {(Access.READ, Access.BUFFER), (Access.BUFFER, Access.READ)}

State = tuple[int, int, int, int, int, int, int]
"""Commands done; jobs begun and ended; blocks begun and ended; transfers begun and ended."""


def range_bytes(*parts: ByteRange) -> Bytes:
    return frozenset((part.region, address) for part in parts for address in range(part.start, part.end))


def element_bytes(fm: FeatureMap, ys: range, xs: range, cs: range) -> Bytes:
    return frozenset((fm.region, fm.address(y, x, c) + offset) for y in ys for x in xs for c in cs for offset in range(fm.dtype.bytes))


def ofm_blocks(op: KernelOperation) -> list[tuple[range, range, range]]:
    shape, size = op.ofm.shape, op.block
    return [
        (
            range(y, min(y + size.height, shape.height)),
            range(x, min(x + size.width, shape.width)),
            range(c, min(c + size.depth, shape.depth)),
        )
        for y in range(0, shape.height, size.height)
        for x in range(0, shape.width, size.width)
        for c in range(0, shape.depth, size.depth)
    ]


def written(op: KernelOperation, block: tuple[range, range, range]) -> Bytes:
    """A block's bytes; its last channels end at a whole brick of 16."""
    ys, xs, cs = block
    last = -(-cs.stop // 16) * 16 if op.ofm.layout is Layout.NHCWB16 and cs.stop == op.ofm.shape.depth else cs.stop
    return element_bytes(op.ofm, ys, xs, range(cs.start, last))


def taps(outer: range, stride: int, window: int, dilation: int, pad: int, limit: int) -> range:
    places = [y * stride + tap * dilation - pad for y in outer for tap in range(window)]
    inside = [place for place in places if 0 <= place < limit]
    return range(min(inside), max(inside) + 1) if inside else range(0)


def jobs(op: KernelOperation, block: tuple[range, range, range]) -> Iterator[Bytes]:
    """Bytes that the jobs of a block read: one, or one for each IFM depth block where channels are summed."""
    ys, xs, cs = block
    if op.kind is OperationKind.ELEMENTWISE:
        operands = [fm for fm in (op.ifm, op.ifm2) if fm is not None]
        axes = [
            tuple(
                axis if extent > 1 else range(1)
                for axis, extent in zip(block, (fm.shape.height, fm.shape.width, fm.shape.depth), strict=True)
            )
            for fm in operands
        ]
        yield frozenset().union(*(element_bytes(fm, *own) for fm, own in zip(operands, axes, strict=True)))
        return
    kernel, shape = op.kernel, op.ifm.shape
    rows = taps(ys, kernel.stride_y, kernel.height, kernel.dilation_y, op.padding.top, shape.height)
    columns = taps(xs, kernel.stride_x, kernel.width, kernel.dilation_x, op.padding.left, shape.width)
    if op.kind is OperationKind.CONV_2D or op.pool is PoolKind.REDUCE_SUM:
        step = min({8: 32, 16: 16, 32: 8}[op.ifm.dtype.bits], 16 if op.part_kernel else 32)
        for first in range(0, shape.depth, step):
            yield element_bytes(op.ifm, rows, columns, range(first, min(first + step, shape.depth)))
    else:
        yield element_bytes(op.ifm, rows, columns, cs)


class Orders:
    """The states of a Program, and what is at work in each."""

    def __init__(self, program: Program) -> None:
        self.device = accelerator(program.accelerator)
        self.commands = program.operations
        self.kernels = [(index, op) for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)]
        self.transfers = [(index, op) for index, op in enumerate(program.operations) if isinstance(op, DmaOperation)]
        self.jobs: list[tuple[int, int, Bytes]] = []  # kernel, number in the kernel, bytes
        self.blocks: list[tuple[int, int, Bytes]] = []  # kernel, jobs that must have ended, bytes
        for kernel, (_, op) in enumerate(self.kernels):
            number = 0
            for block in ofm_blocks(op):
                for read in jobs(op, block):
                    self.jobs.append((kernel, number, read))
                    number += 1
                self.blocks.append((kernel, len(self.jobs), written(op, block)))
        self.ends = [max(n for n, (owner, _, _) in enumerate(self.blocks, 1) if owner == kernel) for kernel in range(len(self.kernels))]
        self.first_jobs = [min(n for n, (owner, _, _) in enumerate(self.jobs) if owner == kernel) for kernel in range(len(self.kernels))]

    def done(self, state: State) -> int:
        """Kernels that have stored all of their blocks."""
        return sum(end <= state[4] for end in self.ends)

    def issued(self, state: State) -> tuple[int, int]:
        return sum(index < state[0] for index, _ in self.kernels), sum(index < state[0] for index, _ in self.transfers)

    def may_issue(self, state: State) -> bool:
        command = self.commands[state[0]]
        kernels, transfers = self.issued(state)
        kernels, transfers = kernels - self.done(state), transfers - state[6]
        if isinstance(command, KernelOperation):
            return kernels < self.device.max_outstanding_kernels
        if isinstance(command, DmaOperation):
            return transfers < self.device.max_outstanding_dma
        if isinstance(command, KernelWait):
            return kernels <= command.outstanding
        return transfers <= command.outstanding if isinstance(command, DmaWait) else True

    def may_fetch(self, state: State) -> bool:
        kernel, number, _ = self.jobs[state[1]]
        before = self.ends[kernel - 1] if kernel else 0
        return kernel < self.issued(state)[0] and before - state[4] <= max(0, self.kernels[kernel][1].blockdep - number)

    def following(self, state: State) -> Iterator[State]:
        command, fetching, fetched, storing, stored, moving, moved = state
        if command < len(self.commands) and self.may_issue(state):
            yield (command + 1, *state[1:])
        if fetching > fetched:
            yield (command, fetching, fetched + 1, *state[3:])
        elif fetching < len(self.jobs) and self.may_fetch(state):
            yield (command, fetching + 1, *state[2:])
        if storing > stored:
            yield (command, fetching, fetched, storing, stored + 1, moving, moved)
        elif storing < len(self.blocks) and self.blocks[storing][1] <= fetched:
            yield (command, fetching, fetched, storing + 1, stored, moving, moved)
        if moving > moved:
            yield (*state[:6], moved + 1)
        elif moving < self.issued(state)[1]:
            yield (*state[:5], moving + 1, moved)

    def at_work(self, state: State) -> Iterator[tuple[int, Bytes, Access]]:
        """Operations, and the bytes that each is at work on."""
        _, fetching, fetched, storing, stored, moving, moved = state
        if fetching > fetched:
            kernel, _, read = self.jobs[fetched]
            yield self.kernels[kernel][0], read, Access.READ
        if storing > stored:
            kernel, _, write = self.blocks[stored]
            yield self.kernels[kernel][0], write, Access.WRITE
        if moving > moved:
            index, op = self.transfers[moved]
            yield index, range_bytes(*op.reads()), Access.READ
            yield index, range_bytes(*op.writes()), Access.WRITE
            if op.to_shram:
                yield index, range_bytes(ByteRange(SHRAM, op.destination, op.destination + op.length)), Access.WRITE
        for kernel in range(self.done(state), self.issued(state)[0]):
            index, op = self.kernels[kernel]
            yield index, range_bytes(*op.weights, *op.scales), Access.READ
            if fetching > self.first_jobs[kernel]:
                table, buffers = self.shram[kernel]
                yield index, table, Access.READ
                yield index, buffers, Access.BUFFER

    @cached_property
    def shram(self) -> list[tuple[Bytes, Bytes]]:
        """Each kernel's table, and what its buffers take of the tables' banks."""
        device, found = self.device, []
        for _, op in self.kernels:
            has_table = op.activation.kind is ActivationKind.LUT
            start = device.lut_address + 256 * op.activation.lut
            table = range_bytes(ByteRange(SHRAM, start, start + 256 * op.ofm.dtype.bytes)) if has_table else frozenset()
            banks = device.shram_banks - max(device.reserved_lut_banks, device.lut_banks if has_table else 0)
            found.append((table, frozenset((SHRAM, address) for address in range(device.lut_address, banks * 1024))))
        return found

    def races(self) -> set[tuple[int, int]]:
        """Pairs of operations, the earlier one first, that are at work on one byte in some state."""
        found: set[tuple[int, int]] = set()
        known: set[State] = {(0, 0, 0, 0, 0, 0, 0)}
        waiting = list(known)
        while waiting:
            state = waiting.pop()
            busy = list(self.at_work(state))
            for number, (first, mine, one) in enumerate(busy):
                for second, theirs, other in busy[number + 1 :]:
                    earlier = one if first < second else other
                    if (one, other) in TABLE and earlier is Access.BUFFER:
                        continue  # The table was lost to the earlier kernel in any order.
                    if first != second and (one, other) in CONFLICTS and not mine.isdisjoint(theirs):
                        found.add((min(first, second), max(first, second)))
            for after in self.following(state):
                if after not in known:
                    known.add(after)
                    waiting.append(after)
        return found
