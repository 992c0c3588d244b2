"""Operations and their bytes at other places: in other regions, or further on in their own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from npu_model.program.feature_map import ByteRange, FeatureMap
from npu_model.program.operations import DmaOperation, KernelOperation, Operation

Moves = Mapping[int, tuple[int, int]]
"""For each region that moves, the region that its bytes move to, and how many bytes further on."""


def moved_place(region: int, address: int, moves: Moves) -> tuple[int, int]:
    """The region and the address that a byte moves to."""
    there, by = moves.get(region, (region, 0))
    return there, address + by


def _range(span: ByteRange, moves: Moves) -> ByteRange:
    region, start = moved_place(span.region, span.start, moves)
    return ByteRange(region, start, start + span.length)


def _map(feature_map: FeatureMap, moves: Moves) -> FeatureMap:
    region, by = moved_place(feature_map.region, 0, moves)
    return feature_map.moved(by, region)


def moved(operation: Operation, moves: Moves) -> Operation:
    """The operation that does the same with moved bytes."""
    if isinstance(operation, DmaOperation):
        source = _range(operation.source, moves)
        if operation.to_shram:
            return replace(operation, source=source)
        region, destination = moved_place(operation.destination_region, operation.destination, moves)
        return replace(operation, source=source, destination=destination, destination_region=region)
    if not isinstance(operation, KernelOperation):
        return operation
    return operation.having(
        ifm=_map(operation.ifm, moves),
        ofm=_map(operation.ofm, moves),
        ifm2=None if operation.ifm2 is None else _map(operation.ifm2, moves),
        weights=tuple(_range(span, moves) for span in operation.weights),
        scales=tuple(_range(span, moves) for span in operation.scales),
    )
