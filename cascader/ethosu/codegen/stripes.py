"""Stripes of kernel operations: the operation that makes some rows, on tensors that may be rolling buffers.

A row is a step along the part's axis: a row of the feature map, or a column.
"""

from __future__ import annotations

from typing import NamedTuple

from cascader.ethosu.codegen.feature_maps import placed, rebase
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart
from npu_model.program import LONGEST_STRIDE, FeatureMap, KernelOperation, OperationKind, Upscale
from npu_model.shapes import ceil_div


class Place(NamedTuple):
    """Where a tensor lies: byte b of it at ``address + b mod (rows * row_bytes)``.

    A tensor that is whole has all of its bytes there; a rolling buffer has fewer rows.
    """

    address: int
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.row_bytes

    def rolls(self, feature_map: FeatureMap) -> bool:
        """Whether ``feature_map`` has bytes that wrap in this place."""
        return any(span.end > self.size for span in feature_map.byte_ranges())


_HOME = Place(0, 1, 1 << 62)
"""Where constant feature maps are, by their own addresses."""


def _rows_of(feature_map: FeatureMap, first: int, last: int, place: Place, axis: Axis) -> FeatureMap:
    """Rows ``first`` to ``last`` (exclusive) of a feature map where they lie in ``place``; of one tile, which wraps once at most.

    A tile box wraps by its second tile. A map of several tiles stays whole.
    """
    if not feature_map.is_single_tile:
        return rebase(feature_map, place.address)
    count, step = last - first, axis.step(feature_map)
    start = feature_map.tiles.bases[0] + (first * step if first else 0)
    slot = start % place.size
    # The stride of a single row may be anything.
    before_wrap = min(count, ceil_div(place.size - slot, step)) if count > 1 else count
    second = place.address + (start + before_wrap * step) % place.size if count > before_wrap else 0
    shape = axis.cut(feature_map.shape, count)
    tiles = axis.tiles(shape, place.address + slot, before_wrap, second)
    return placed(feature_map, shape, tiles)


def _window(operation: KernelOperation, start: int, end: int, axis: Axis) -> tuple[int, int, int, int]:
    """First and last (exclusive) IFM row of OFM rows ``start`` to ``end``, and the padding before and after them."""
    window, rows = axis.window(operation), axis.extent(operation.ifm.shape)
    low = start * window.stride - window.pad
    high = (end - 1) * window.stride - window.pad + window.taps
    if operation.upscale is not Upscale.NONE:
        # A stripe begins with padding or with the first copy of an IFM row.
        return max(0, low // 2), min(rows, ceil_div(high, 2)), max(0, -low), max(0, high - 2 * rows)
    return max(0, low), min(rows, high), max(0, -low), max(0, high - rows)


def _operand(part: EthosuPart, operand: FeatureMap, start: int, end: int, place: Place) -> FeatureMap:
    """Rows of an elementwise operand; one that is repeated along the rows stays whole, a constant one stays where it is."""
    rows = part.axis.extent(operand.shape)
    repeated = rows < part.axis.extent(part.operation.ofm.shape)
    return _rows_of(operand, 0, rows, place, part.axis) if repeated else _rows_of(operand, start, end, place, part.axis)


def stripe(part: EthosuPart, start: int, end: int, places: dict[str, Place]) -> KernelOperation:
    """Rows ``start`` to ``end`` (exclusive) of the part's OFM, on the places of its tensors."""
    operation, axis = part.operation, part.axis

    def place(feature_map: FeatureMap, tensor: str) -> Place:
        return places[tensor] if feature_map.region == ARENA else _HOME

    source, target = place(operation.ifm, part.ifm), places[part.ofm]
    second = operation.ifm2
    source2 = place(second, part.ifm2) if second is not None and part.ifm2 is not None else _HOME
    maps = ((operation.ifm, source), (second, source2), (operation.ofm, target))
    if start == 0 and end == axis.extent(operation.ofm.shape) and not any(m and p.rolls(m) for m, p in maps):
        return whole(part, places)
    ofm = _rows_of(operation.ofm, start, end, target, axis)
    if operation.kind is OperationKind.ELEMENTWISE:
        ifm2 = _operand(part, second, start, end, source2) if second is not None else None
        return operation.having(ifm=_operand(part, operation.ifm, start, end, source), ifm2=ifm2, ofm=ofm)
    low, high, before, after = _window(operation, start, end, axis)
    ifm = _rows_of(operation.ifm, low, high, source, axis)
    kernel = operation.kernel
    if end - start == 1 and axis.window(operation).stride > LONGEST_STRIDE:
        kernel = axis.without_stride(kernel)
    return operation.having(ifm=ifm, ofm=ofm, kernel=kernel, padding=axis.padding(operation.padding, before, after))


def whole(part: EthosuPart, places: dict[str, Place]) -> KernelOperation:
    """The part's operation uncut, on the places of its tensors; constants are where they are."""

    def moved(tensor: str | None, feature_map: FeatureMap) -> FeatureMap:
        return rebase(feature_map, places[tensor].address) if tensor is not None and feature_map.region == ARENA else feature_map

    return part.on_maps(moved)
