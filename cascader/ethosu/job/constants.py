"""Packing the constants of a network: only the bytes that its kernels use."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import CONSTANTS, EthosuPart, LutLoad, Network
from npu_model.program import ByteRange, FeatureMap, KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def constant_ranges(part: EthosuPart) -> tuple[ByteRange, ...]:
    """Every range of the constants that the part reads: weights, scales, constant feature maps, its table."""
    ranges = [span for span in part.operation.reads() if span.region == CONSTANTS]
    return (*ranges, part.lut.source) if part.lut else tuple(ranges)


class Packing(Struct, frozen=True):
    """The kept ranges of the constants in ascending order, with the start of each after packing."""

    kept: tuple[tuple[int, int], ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, ranges: Iterable[ByteRange]) -> Packing:
        """Keep the ranges' bytes, in whole units of 16 bytes."""
        kept: list[tuple[int, int]] = []
        for start, end in sorted((span.start // ALIGNMENT * ALIGNMENT, round_up(span.end, ALIGNMENT)) for span in ranges):
            if kept and start <= kept[-1][1]:
                kept[-1] = (kept[-1][0], max(kept[-1][1], end))
            else:
                kept.append((start, end))
        starts = []
        total = 0
        for start, end in kept:
            starts.append(total)
            total += end - start
        return cls(tuple(kept), tuple(starts))

    def content(self, constants: bytes | bytearray) -> bytes:
        """The kept bytes, one range after the other; zeros for bytes beyond the end of ``constants``."""
        found: list[memoryview | bytes] = []
        with memoryview(constants) as view:
            for start, end in self.kept:
                found += (kept := view[start:end], bytes(end - start - len(kept)))
            return b"".join(found)

    def shift(self, address: int) -> int:
        """Bytes by which the byte at ``address`` moves (negative: downwards)."""
        index = bisect_right(self.kept, (address, 1 << 64)) - 1
        return self.starts[index] - self.kept[index][0]

    def _range(self, span: ByteRange) -> ByteRange:
        delta = self.shift(span.start)
        return ByteRange(span.region, span.start + delta, span.end + delta)

    def _map(self, feature_map: FeatureMap) -> FeatureMap:
        if feature_map.region != CONSTANTS:
            return feature_map
        return feature_map.moved(self.shift(feature_map.byte_ranges()[0].start))

    def operation(self, operation: KernelOperation) -> KernelOperation:
        """The operation reading its constants from their new addresses."""
        return replace(
            operation,
            ifm=self._map(operation.ifm),
            ifm2=self._map(operation.ifm2) if operation.ifm2 else None,
            weights=tuple(self._range(span) for span in operation.weights),
            scales=tuple(self._range(span) for span in operation.scales),
        )

    def part(self, part: EthosuPart) -> EthosuPart:
        """The part reading its constants and its table from their new addresses."""
        lut = LutLoad(self._range(part.lut.source), part.lut.destination) if part.lut else None
        return replace(part, operation=self.operation(part.operation), lut=lut)


class StreamEditor:
    """The constants of a network while streams are added at their end."""

    def __init__(self, content: bytes) -> None:
        self._content = bytearray(content)

    def read(self, span: ByteRange) -> bytes:
        """The bytes of a range."""
        return bytes(self._content[span.start : span.end])

    def append(self, data: bytes) -> ByteRange:
        """Add ``data`` at a multiple of 16 bytes, padded to one, and return its range."""
        self._content += bytes(-len(self._content) % ALIGNMENT)
        start = len(self._content)
        self._content += data + bytes(-len(data) % ALIGNMENT)
        return ByteRange(CONSTANTS, start, len(self._content))

    def append_all(self, streams: Sequence[bytes]) -> tuple[ByteRange, ...]:
        """Add the stream of each core; an empty stream has no bytes and begins where the first one begins."""
        first = self.append(streams[0])
        return (first, *(self.append(one) if one else ByteRange(CONSTANTS, first.start, first.start) for one in streams[1:]))

    def packed(self, packing: Packing) -> bytes:
        """The kept bytes of a packing."""
        return packing.content(self._content)

    def content(self) -> bytes:
        """All bytes so far."""
        return bytes(self._content)


def repacked(network: Network, constants: StreamEditor) -> Network:
    """``network`` with only those constants that its kernels use; the kernels read from ``constants``."""
    kernels = network.kernels
    packing = Packing.of(span for kernel in kernels.values() for span in constant_ranges(kernel))
    packed = network.with_kernels({name: packing.part(kernel) for name, kernel in kernels.items()})
    return replace(packed, constants=constants.packed(packing))
