"""The decoder's work for the weight streams of a Program: which bytes a kernel's weight ranges hold, and what they ask of the decoder."""

from __future__ import annotations

from collections.abc import Mapping

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.weight_stream.mlw_work import DecoderWork, decoder_work
from npu_model.weight_stream.order import STREAM_BITS, run_ends
from npu_model.weight_stream.weights import core_format

StreamWork = Mapping[int, tuple[DecoderWork, ...]]
"""By operation index the work for the stream of each core; kernels without weights, or whose weights are unknown, have none."""


class _Contents:
    """The content of the regions, as far as constants and copies of constants tell."""

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

    A core without a channel of an OFM block has nothing to do for it. InputError if a stream is damaged or too
    short, or no weights go with the elements of the IFM.
    """
    bits = op.ifm.dtype.bits
    if bits not in STREAM_BITS:
        raise InputError(f"An operation with weights reads elements of {bits} bits: 8 or 16 are needed; the file is damaged.")
    found: list[DecoderWork] = []
    for core, stream in enumerate(streams):
        shape, layout = core_format(op, core)
        if not (core or stream):
            raise InputError(f"The weights of {shape[0]} channels are a range of 0 bytes: a stream is needed; the file is damaged.")
        ends = run_ends(shape, layout, accelerator) if stream else ()
        work = decoder_work(stream, ends) if ends else DecoderWork((), ())
        idle = len(found[0].turns) - len(ends) if found else 0
        found.append(DecoderWork(work.bits + (work.bits or (0,))[-1:] * idle, work.turns + (work.turns or (0,))[-1:] * idle))
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
