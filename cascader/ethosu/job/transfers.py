"""Transfers within the arena: the bytes that a kernel would copy element by element, as runs that the DMA copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from cascader.ethosu.job.feature_maps import row_bytes
from npu_model.program import ByteRange, DmaOperation, FeatureMap, KernelOperation
from npu_model.program.alignment import ALIGNMENT


def _runs(feature_map: FeatureMap) -> Sequence[ByteRange] | None:
    """The bytes of a map in the order of its elements, in one run for each tile; None if there are gaps."""
    row, rows = row_bytes(feature_map), feature_map.shape.height
    if row is None or feature_map.tiles.width0 < feature_map.shape.width or (rows > 1 and feature_map.strides.y != row):
        return None
    return [ByteRange(feature_map.region, base, base + count * row) for base, _, _, count, _ in feature_map.tile_boxes()]


def _pieces(source: Sequence[ByteRange], target: Sequence[ByteRange]) -> Iterator[DmaOperation]:
    """The transfers, each with the bytes that are contiguous in both runs."""
    borders = {0}.union(*(accumulate(run.length for run in runs) for runs in (source, target)))
    for start, end in pairwise(sorted(borders)):
        read, written = _at(source, start), _at(target, start)
        yield DmaOperation(ByteRange(read.region, read.start, read.start + end - start), written.start, written.region)


def _at(runs: Sequence[ByteRange], offset: int) -> ByteRange:
    """The rest of the run that holds byte ``offset`` of all runs, from there on."""
    for run in runs:
        if offset < run.length:
            return ByteRange(run.region, run.start + offset, run.end)
        offset -= run.length
    raise IndexError(offset)


def copied_bytes(operation: KernelOperation) -> int:
    """Bytes that a copy writes."""
    return operation.ofm.shape.elements * operation.ofm.dtype.bytes


def transfers(operation: KernelOperation) -> tuple[DmaOperation, ...]:
    """The transfers that replace a copying operation; none if its bytes have gaps, or do not begin and end at multiples of 16."""
    source, target = _runs(operation.ifm), _runs(operation.ofm)
    if source is None or target is None:
        return ()
    found = tuple(_pieces(source, target))
    places = [place for one in found for place in (one.source.start, one.destination, one.length)]
    return found if all(place % ALIGNMENT == 0 for place in places) else ()
