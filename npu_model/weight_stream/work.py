"""The decoder's work for the weight streams of a Program: the bytes of a kernel's weight ranges, and the decoder's time for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.weight_stream.kernels import kernel_weights
from npu_model.weight_stream.mlw_work import DecoderWork, decoder_work
from npu_model.weight_stream.order import STREAM_BITS, WeightFormat, run_ends
from npu_model.weight_stream.weights import core_format, weight_shape

StreamWork = Mapping[int, tuple[DecoderWork, ...]]
"""By operation index the work for the stream of each core; kernels without weights, or with unknown ones, have none."""


_Slice = tuple[bytes, int, int]
"""Some bytes of a content: the first byte, and the byte after the last."""

_Slices = tuple[_Slice, ...]
_Cores = tuple[_Slices, ...]


def _cut(slices: _Slices, first: int, last: int) -> Iterator[_Slice]:
    """Bytes ``first`` to ``last`` (exclusive) of some slices one after the other."""
    for content, begin, end in slices:
        if first < min(last, end - begin):
            yield content, begin + max(first, 0), begin + min(last, end - begin)
        first, last = first - (end - begin), last - (end - begin)


def _length(slices: _Slices) -> int:
    return sum(end - begin for _, begin, end in slices)


class _Contents:
    """The content of the regions, as far as constants and copies of constants show it."""

    def __init__(self, program: Program) -> None:
        self._constants = {region.index: region.content for region in program.regions if region.content}
        self._copies: dict[int, list[tuple[int, _Slices]]] = {}
        self.copied: list[DmaOperation] = []
        """Transfers that were not looked at yet: most programs need none."""
        # By the identity of the ranges, which the stripes of a part share: the streams since the last copy.
        self._streams: dict[int, _Cores | None] = {}

    def _copy(self, op: DmaOperation) -> None:
        """A transfer overwrites the bytes at its destination. Its bytes are known if its source is."""
        if op.to_shram:
            return
        self._streams.clear()
        start, end = op.destination, op.destination + op.length
        pieces = self._copies.get(op.destination_region, [])
        kept = [(first, data) for first, data in pieces if first >= end or first + _length(data) <= start]
        data = self.read(op.source)
        self._copies[op.destination_region] = kept if data is None else sorted([*kept, (start, data)], key=itemgetter(0))

    def read(self, where: ByteRange) -> _Slices | None:
        """The bytes of a range; None if any of them is unknown."""
        if where.region in self._constants:
            content = self._constants[where.region]
            end = min(where.end, len(content))
            return ((content, where.start, end),) if where.start < end else ()
        found: list[_Slice] = []
        position = where.start
        for first, data in self._copies.get(where.region, ()):
            if first <= position < first + _length(data):
                found += _cut(data, position - first, where.end - first)
                position = min(first + _length(data), where.end)
        return tuple(found) if position == where.end else None

    def streams(self, op: KernelOperation) -> _Cores | None:
        """The bytes of an operation's weights, core by core; None if any of them is unknown."""
        for transfer in self.copied:
            self._copy(transfer)
        self.copied.clear()
        key = id(op.weights)
        if key not in self._streams:
            streams = [self.read(where) for where in op.weights]
            known = tuple(stream for stream in streams if stream is not None)
            self._streams[key] = known if len(known) == len(streams) else None
        return self._streams[key]


def operation_work(op: KernelOperation, streams: tuple[bytes, ...], accelerator: Accelerator) -> tuple[DecoderWork, ...]:
    """The work for the stream of each core, up to the end of every sub-kernel of every IFM block of every OFM block.

    A core without a channel of an OFM block has no work for it. InputError if a stream is damaged or too short, or if IFM elements of this
    type have no weights.
    """
    bits = op.ifm.dtype.bits
    if accelerator.weight_streams:
        # Streams of a family whose decoder is unknown: the only requirement is that they hold the weights.
        kernel_weights(op, streams, accelerator)
        return ()
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


class _KnownWork:
    """The work of streams that are used again, by their positions in contents and by the facts that decide their format."""

    def __init__(self) -> None:
        self._found: dict[object, tuple[DecoderWork, ...]] = {}
        self._contents: dict[int, bytes] = {}

    def of(self, op: KernelOperation, cores: _Cores, accelerator: Accelerator) -> tuple[DecoderWork, ...]:
        """Like :func:`operation_work`, for the stream of each core."""
        places = tuple((id(content), begin, end) for slices in cores for content, begin, end in slices)
        key = weight_shape(op), WeightFormat.of(op), op.ifm.dtype.bits, accelerator, tuple(map(len, cores)), places
        known = self._found.get(key)
        if known is None:
            # What is known by its identity is kept.
            contents = {id(content): content for slices in cores for content, _, _ in slices}
            if len(self._found) > _MOST_WORKS or len(self._contents | contents) > _MOST_CONTENTS:
                self._found.clear()
                self._contents.clear()
            self._contents |= contents
            streams = tuple(b"".join([content[begin:end] for content, begin, end in slices]) for slices in cores)
            known = self._found[key] = operation_work(op, streams, accelerator)
        return known


_MOST_WORKS, _MOST_CONTENTS = 8192, 8
"""The most works and contents of constants that are kept; beyond it all are dropped."""

_KNOWN = _KnownWork()


def stream_work(program: Program, accelerator: Accelerator) -> StreamWork:
    """The work for every kernel whose weights are constants of the program or copies of them; InputError if a stream is damaged."""
    contents, work = _Contents(program), {}
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            streams = contents.streams(op) if op.weights else None
            if streams is not None:
                work[index] = _KNOWN.of(op, streams, accelerator)
        elif isinstance(op, DmaOperation):
            contents.copied.append(op)
    return work


def work_of(op: KernelOperation, content: bytes, accelerator: Accelerator) -> tuple[DecoderWork, ...]:
    """The work of a kernel that reads its weights in these constants; InputError if a stream is damaged."""
    cores = tuple(((content, where.start, min(where.end, len(content))),) if where.start < len(content) else () for where in op.weights)
    return _KNOWN.of(op, cores, accelerator)
