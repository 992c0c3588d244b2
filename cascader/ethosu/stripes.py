"""Stripes of kernel operations: the operation that makes some rows, on tensors that may be rolling buffers.

A row is a step along the part's axis: a row of the feature map, or a column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cascader.ethosu.axis import Axis
from cascader.ethosu.feature_maps import rebase
from cascader.ethosu.network import ARENA, EthosuPart
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Upscale
from npu_model.shapes import ceil_div


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: row y is at ``address + (y mod rows) * row_bytes``.

    A tensor that is whole has all of its ``rows``; a rolling buffer has fewer. A tensor that cannot be cut is
    one row, inside which each feature map steps as it will.
    """

    address: int
    rows: int
    row_bytes: int

    def rolls(self, feature_map: FeatureMap, axis: Axis) -> bool:
        """Whether rows of ``feature_map`` wrap in this place."""
        return self.row_bytes == axis.step(feature_map) and self.rows < axis.extent(feature_map.shape)


def _rows_of(feature_map: FeatureMap, first: int, last: int, place: Place, axis: Axis) -> FeatureMap:
    """Rows ``first`` to ``last`` (exclusive) of a feature map of one tile, where they lie in ``place``; one wrap at most.

    A tile box wraps by its second tile, which begins at the buffer's start.
    """
    start = place.address + feature_map.tiles.bases[0]
    count = last - first
    slot = first % place.rows if place.rolls(feature_map, axis) else first
    before_wrap = place.rows - slot if place.rolls(feature_map, axis) else count
    shape = axis.cut(feature_map.shape, count)
    second = start if count > before_wrap else 0
    tiles = axis.tiles(shape, start + slot * axis.step(feature_map), min(count, before_wrap), second)
    return replace(feature_map, shape=shape, tiles=tiles)


def _window(operation: KernelOperation, start: int, end: int, axis: Axis) -> tuple[int, int, int, int]:
    """First and last (exclusive) IFM row of OFM rows ``start`` to ``end``, and the padding before and after them."""
    window, rows = axis.window(operation), axis.extent(operation.ifm.shape)
    low = start * window.stride - window.pad
    high = (end - 1) * window.stride - window.pad + window.taps
    if operation.upscale is not Upscale.NONE:
        # Only kernels without padding and overlap are cut behind the upscaler, at whole IFM rows.
        return low // 2, min(rows, ceil_div(high, 2)), 0, 0
    return max(0, low), min(rows, high), max(0, -low), max(0, high - rows)


def _at(place: Place | None, feature_map: FeatureMap, axis: Axis) -> Place:
    """``place``, or where a constant feature map stays."""
    return place or Place(0, axis.extent(feature_map.shape), axis.step(feature_map))


def _operand(part: EthosuPart, operand: FeatureMap, start: int, end: int, place: Place | None) -> FeatureMap:
    """Rows of an elementwise operand; one that is repeated along the rows stays whole, a constant one stays where it is."""
    repeated = part.axis.extent(operand.shape) < part.axis.extent(part.operation.ofm.shape)
    found = _at(place, operand, part.axis)
    return rebase(operand, found.address) if repeated else _rows_of(operand, start, end, found, part.axis)


def stripe(part: EthosuPart, start: int, end: int, places: dict[str, Place]) -> KernelOperation:
    """Rows ``start`` to ``end`` (exclusive) of the part's OFM, on the places of its tensors."""
    operation, axis = part.operation, part.axis

    def place(feature_map: FeatureMap, tensor: str) -> Place | None:
        return places[tensor] if feature_map.region == ARENA else None

    source, target = place(operation.ifm, part.ifm), places[part.ofm]
    second = operation.ifm2
    source2 = place(second, part.ifm2) if second is not None and part.ifm2 is not None else None
    maps = ((operation.ifm, source), (second, source2), (operation.ofm, target))
    if start == 0 and end == axis.extent(operation.ofm.shape) and not any(m and p and p.rolls(m, axis) for m, p in maps):
        return whole(part, places)
    ofm = _rows_of(operation.ofm, start, end, target, axis)
    if operation.kind is OperationKind.ELEMENTWISE:
        ifm2 = _operand(part, second, start, end, source2) if second is not None else None
        return replace(operation, ifm=_operand(part, operation.ifm, start, end, source), ifm2=ifm2, ofm=ofm)
    low, high, before, after = _window(operation, start, end, axis)
    ifm = _rows_of(operation.ifm, low, high, _at(source, operation.ifm, axis), axis)
    return replace(operation, ifm=ifm, ofm=ofm, padding=axis.padding(operation.padding, before, after))


def whole(part: EthosuPart, places: dict[str, Place]) -> KernelOperation:
    """The part's operation uncut, on the places of its tensors; constants are where they are."""
    operation = part.operation

    def moved(feature_map: FeatureMap, tensor: str) -> FeatureMap:
        return rebase(feature_map, places[tensor].address) if feature_map.region == ARENA else feature_map

    return replace(
        operation,
        ifm=moved(operation.ifm, part.ifm),
        ifm2=moved(operation.ifm2, part.ifm2) if operation.ifm2 is not None and part.ifm2 is not None else None,
        ofm=moved(operation.ofm, part.ofm),
    )
