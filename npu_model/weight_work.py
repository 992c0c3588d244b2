"""The decoder's work for the weight streams of a Program: which bytes a kernel's weight ranges hold, and what they ask of the decoder."""

from __future__ import annotations

from collections.abc import Mapping

from npu_model.accelerator import Accelerator
from npu_model.mlw_work import DecoderWork, decoder_work
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div
from npu_model.weight_order import WeightFormat, run_ends
from npu_model.weights import weight_shape

StreamWork = Mapping[int, tuple[DecoderWork, ...]]
"""By operation index the work for the stream of each core; kernels without weights, or whose weights are unknown, have none."""


class _Contents:
    """What lies in the regions, as far as constants and copies of constants tell."""

    def __init__(self, program: Program) -> None:
        self._constants = {region.index: region.content for region in program.regions if region.content}
        self._copies: dict[int, list[tuple[int, bytes]]] = {}

    def copy(self, op: DmaOperation) -> None:
        """A transfer overwrites what lies at its destination; what it brings is known if its source is."""
        if op.to_shram:
            return
        start, end = op.destination, op.destination + op.length
        pieces = self._copies.get(op.destination_region, [])
        kept = [(first, data) for first, data in pieces if first >= end or first + len(data) <= start]
        data = self.read(op.source)
        self._copies[op.destination_region] = kept if data is None else sorted([*kept, (start, data)])

    def read(self, where: ByteRange) -> bytes | None:
        """The bytes of a range; None if any of them is unknown."""
        if where.region in self._constants:
            return self._constants[where.region][where.start : where.end]
        found, position = [], where.start
        for first, data in self._copies.get(where.region, ()):
            if first <= position < first + len(data):
                found.append(data[position - first : where.end - first])
                position += len(found[-1])
        return b"".join(found) if position == where.end else None


def operation_work(op: KernelOperation, streams: tuple[bytes, ...], accelerator: Accelerator) -> tuple[DecoderWork, ...]:
    """The work for the stream of each core, up to the end of every sub-kernel of every IFM block of every OFM block.

    Cores take the OFM channels in turn, those of a block and those of the tensor. InputError if a stream is damaged or too short.
    """
    depth, height, width, channels = weight_shape(op)
    cores, layout = len(streams), WeightFormat.of(op)
    found = []
    for core, stream in enumerate(streams):
        shape = (ceil_div(depth - core, cores), height, width, channels)
        found.append(decoder_work(stream, run_ends(shape, layout.of_core(core, cores), accelerator)))
    return tuple(found)


def stream_work(program: Program, accelerator: Accelerator) -> StreamWork:
    """The work for every kernel whose weights are constants of the program or copies of them; InputError if a stream is damaged."""
    contents, work = _Contents(program), {}
    for index, op in enumerate(program.operations):
        if isinstance(op, DmaOperation):
            contents.copy(op)
        elif isinstance(op, KernelOperation) and op.weights:
            streams = [contents.read(where) for where in op.weights]
            known = tuple(stream for stream in streams if stream is not None)
            if len(known) == len(streams):
                work[index] = operation_work(op, known, accelerator)
    return work
