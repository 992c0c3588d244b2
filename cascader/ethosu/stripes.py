"""Stripes of kernel operations: the operation that makes some rows, on tensors that may be rolling buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cascader.ethosu.feature_maps import rebase
from cascader.ethosu.network import ARENA, EthosuPart
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Padding, Tiles, Upscale
from npu_model.shapes import Shape3D, ceil_div


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies: row y is at ``address + (y mod rows) * row_bytes``.

    A tensor that is whole has as many ``rows`` as it is high; a rolling buffer has fewer. A tensor that cannot be cut is
    one row, inside which each feature map steps as it will.
    """

    address: int
    rows: int
    row_bytes: int

    def rolls(self, feature_map: FeatureMap) -> bool:
        """Whether rows of ``feature_map`` wrap in this place."""
        return self.row_bytes == feature_map.strides.y and self.rows < feature_map.shape.height


def _rows_of(feature_map: FeatureMap, first: int, last: int, place: Place) -> FeatureMap:
    """Rows ``first`` to ``last`` (exclusive) of a feature map of one tile, where they lie in ``place``; one wrap at most.

    A tile box wraps by its lower tile: rows from ``height0`` on lie at ``bases[2]``, the buffer's start.
    """
    start = place.address + feature_map.tiles.bases[0]
    shape = Shape3D(last - first, feature_map.shape.width, feature_map.shape.depth)
    slot = first % place.rows if place.rolls(feature_map) else first
    before_wrap = place.rows - slot if place.rolls(feature_map) else shape.height
    wraps = shape.height > before_wrap
    height = before_wrap if wraps else shape.height
    bases = (start + slot * feature_map.strides.y, 0, start if wraps else 0, 0)
    return replace(feature_map, shape=shape, tiles=Tiles(height, height, shape.width, bases))


def _window(operation: KernelOperation, start: int, end: int) -> tuple[int, int, int, int]:
    """First and last (exclusive) IFM row of OFM rows ``start`` to ``end``, and the padding above and below them."""
    kernel, rows = operation.kernel, operation.ifm.shape.height
    low = start * kernel.stride_y - operation.padding.top
    high = (end - 1) * kernel.stride_y - operation.padding.top + kernel.dilated_height
    if operation.upscale is not Upscale.NONE:
        # Only kernels without padding and overlap are cut behind the upscaler, at whole IFM rows.
        return low // 2, min(rows, ceil_div(high, 2)), 0, 0
    return max(0, low), min(rows, high), max(0, -low), max(0, high - rows)


def _operand(operation: KernelOperation, operand: FeatureMap, start: int, end: int, place: Place | None) -> FeatureMap:
    """Rows of an elementwise operand; one that is repeated along the rows stays whole, a constant one stays where it is."""
    repeated = operand.shape.height < operation.ofm.shape.height
    if place is None:
        place = Place(0, operand.shape.height, operand.strides.y)
    return rebase(operand, place.address) if repeated else _rows_of(operand, start, end, place)


def stripe(part: EthosuPart, start: int, end: int, places: dict[str, Place]) -> KernelOperation:
    """Rows ``start`` to ``end`` (exclusive) of the part's OFM, on the places of its tensors."""
    operation = part.operation

    def place(feature_map: FeatureMap, tensor: str) -> Place | None:
        return places[tensor] if feature_map.region == ARENA else None

    source, target = place(operation.ifm, part.ifm), places[part.ofm]
    second = operation.ifm2
    source2 = place(second, part.ifm2) if second is not None and part.ifm2 is not None else None
    maps = ((operation.ifm, source), (second, source2), (operation.ofm, target))
    if start == 0 and end == operation.ofm.shape.height and not any(m and p and p.rolls(m) for m, p in maps):
        return whole(part, places)
    ofm = _rows_of(operation.ofm, start, end, target)
    if operation.kind is OperationKind.ELEMENTWISE:
        ifm2 = _operand(operation, second, start, end, source2) if second is not None else None
        return replace(operation, ifm=_operand(operation, operation.ifm, start, end, source), ifm2=ifm2, ofm=ofm)
    low, high, top, bottom = _window(operation, start, end)
    ifm = _rows_of(operation.ifm, low, high, source or Place(0, operation.ifm.shape.height, operation.ifm.strides.y))
    padding = Padding(top, operation.padding.left, bottom, operation.padding.right)
    return replace(operation, ifm=ifm, ofm=ofm, padding=padding)


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
