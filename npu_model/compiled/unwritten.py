"""Reads of unwritten bytes: a check that a compiled network reads no byte of the arena before it is written.

An operation should read only results of earlier operations, inputs and CPU operators; other bytes are garbage of an earlier job. A compiler
that addresses a tensor wrongly usually reads such bytes. This check shows it without running a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import BRICK, ByteRange, DmaOperation, FeatureMap, KernelOperation, Layout, Program, RegionRole
from npu_model.program.region_numbers import FIRST_HOME

Flags = NDArray[np.bool_]


class UnwrittenRead(Struct, frozen=True):
    """An operand (IFM or IFM2) that reads byte ``address`` of the arena, which nothing has written.

    ``operation`` is the place in its Program. It is -1 for an output of the network, named by ``layer``, and for a tensor that the CPU
    operator ``mnemonic`` reads. ``reads`` are the bytes from the operand's first to its last; ``layer`` is "" if unknown.
    """

    operation: int
    layer: str
    mnemonic: str
    operand: str
    reads: ByteRange
    address: int

    @property
    def text(self) -> str:
        """Clause that names the layer and the bytes that are wrong."""
        span = f"bytes {self.reads.start} to {self.reads.end} of the arena"
        if self.operation < 0 and self.mnemonic:
            return f"{self.mnemonic} on the CPU reads {self.layer!r}, {span}, of which byte {self.address} was never written"
        if self.operation < 0:
            return f"output {self.layer!r} takes {span}, of which byte {self.address} was never written"
        where = (
            f"layer {self.layer!r} ({self.mnemonic}, operation {self.operation})"
            if self.layer
            else f"operation {self.operation} ({self.mnemonic})"
        )
        return f"{where} reads {span} as its {self.operand}, of which byte {self.address} was never written"


def _views(flags: Flags, fm: FeatureMap) -> Iterator[Flags]:
    """The flags of the bytes of the map's elements, tile by tile; in a last brick, only its channels.

    Rows or columns with a stride of 0, which share their bytes, appear once.
    """
    size = fm.dtype.bytes
    for base, _, _, all_rows, all_columns in fm.tile_boxes():
        start = flags[base:]
        rows = all_rows if fm.strides.y else 1
        columns = all_columns if fm.strides.x or fm.layout is Layout.NHCWB16 else 1
        if fm.layout is Layout.NHWC:
            yield as_strided(start, (rows, columns, fm.shape.depth * size), (fm.strides.y, fm.strides.x, 1))
            continue
        whole, rest = divmod(fm.shape.depth, BRICK)
        steps = (fm.strides.y, BRICK * size, 1)
        if whole:
            yield as_strided(start, (whole, rows, columns, BRICK * size), (fm.strides.c, *steps))
        if rest:
            yield as_strided(flags[base + whole * fm.strides.c :], (rows, columns, rest * size), steps)


class _Arena:
    """Flags, one per byte of the arena: whether the byte was written."""

    def __init__(self, size: int) -> None:
        self._written: Flags = np.zeros(size, np.bool_)

    def write(self, span: ByteRange) -> None:
        self._written[span.start : span.end] = True

    def write_map(self, fm: FeatureMap) -> None:
        for view in _views(self._written, fm):
            view[...] = True

    def copy(self, source: ByteRange | None, target: ByteRange) -> None:
        """Copy a transfer's flags from its source (None: constants, which are always defined)."""
        self._written[target.start : target.end] = True if source is None else self._written[source.start : source.end]

    def missing(self, span: ByteRange) -> int | None:
        """First byte of a range that nothing wrote."""
        written = self._written[span.start : span.end]
        return None if written.all() else span.start + int(np.argmin(written))

    def is_partly_written(self, span: ByteRange) -> bool:
        """Whether some of the bytes were written, and others were not."""
        written = self._written[span.start : span.end]
        return bool(written.any() and not written.all())

    def missing_of_map(self, fm: FeatureMap) -> int | None:
        """First byte of a map's elements that nothing wrote, tile by tile."""
        if all(self.missing(span) is None for span in fm.byte_ranges()):
            # Most ranges are fully written, and a range is looked at once, however many elements lie on one another there.
            return None
        for view in _views(self._written, fm):
            if not view.all():
                at = np.unravel_index(int(np.argmin(view)), view.shape)
                offset = view.__array_interface__["data"][0] - self._written.__array_interface__["data"][0]
                return int(offset + sum(int(i) * step for i, step in zip(at, view.strides, strict=True)))
        return None


def _arena_regions(program: Program) -> frozenset[int]:
    """The arena, and the fast scratch if it is the same memory (all of Vela's modes but Dedicated_Sram): then both have one size."""
    arena = next((r for r in program.regions if r.role is RegionRole.ARENA), None)
    same = (r for r in program.regions if arena and r.role is RegionRole.FAST_SCRATCH and r.size == arena.size)
    return frozenset(r.index for r in (arena, *same) if r is not None)


def _span(maps: FeatureMap) -> ByteRange:
    ranges = maps.byte_ranges()
    return ByteRange(maps.region, ranges[0].start, max(r.end for r in ranges))


def _kernel(arena: _Arena, program: Program, index: int, op: KernelOperation, regions: frozenset[int]) -> Iterator[UnwrittenRead]:
    for operand, fm in (("IFM", op.ifm), ("IFM2", op.ifm2)):
        if fm is not None and fm.region in regions:
            address = arena.missing_of_map(fm)
            if address is not None:
                yield UnwrittenRead(index, program.name(index), op.mnemonic, operand, _span(fm), address)
    if op.ofm.region in regions:
        arena.write_map(op.ofm)


def _program(arena: _Arena, program: Program) -> Iterator[UnwrittenRead]:
    regions = _arena_regions(program)
    for binding in program.inputs:
        if binding.region in regions:
            arena.write(binding.byte_range)
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            yield from _kernel(arena, program, index, op, regions)
        elif isinstance(op, DmaOperation):
            for target in op.writes():
                if target.region in regions:
                    arena.copy(op.source if op.source.region in regions else None, target)


def _cpu_operator(arena: _Arena, operator: CpuOperator) -> Iterator[UnwrittenRead]:
    """Find the operator's inputs that were written only in part. An input that was never written is a state."""
    for binding in operator.inputs:
        address = arena.missing(binding.byte_range)
        if address is not None and arena.is_partly_written(binding.byte_range):
            yield UnwrittenRead(-1, binding.name, operator.code, "input", binding.byte_range, address)
    for binding in operator.outputs:
        arena.write(binding.byte_range)


def unwritten_reads(network: CompiledNetwork) -> Iterator[UnwrittenRead]:
    """The reads of unwritten bytes in the order of execution, at the end those of the network's outputs.

    Bytes that a Program receives count as written: an input of the network, a CPU operator's tensor, or a state between inferences. Bytes
    that a CPU operator writes count too. Tensors outside the arena are left to the functional run. The programs must have passed
    :func:`~npu_model.program.check.check_program`.
    """
    ends = [b.byte_range.end for step in network.steps for b in (*step.inputs, *step.outputs)]
    ends += [b.byte_range.end for b in (*network.inputs, *network.outputs)]
    arena = _Arena(max([network.arena_size, *ends]))
    for binding in network.inputs:
        if binding.region < FIRST_HOME:
            arena.write(binding.byte_range)
    for step in network.steps:
        if isinstance(step, CpuOperator):
            yield from _cpu_operator(arena, step)
        else:
            yield from _program(arena, step)
    for binding in network.outputs:
        if binding.region >= FIRST_HOME:
            continue
        address = arena.missing(binding.byte_range)
        if address is not None:
            yield UnwrittenRead(-1, binding.name, "", "output", binding.byte_range, address)
