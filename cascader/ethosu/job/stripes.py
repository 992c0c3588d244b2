"""Stripes of kernel operations: the operation that makes some rows, on tensors that may be rolling buffers.

A row is a step along the part's axis: a row of the feature map, or a column.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple

from cascader.ethosu.job.feature_maps import placed
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import CONSTANTS, EthosuPart
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import LONGEST_STRIDE, FeatureMap, KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D, ceil_div


class BufferPlace(NamedTuple):
    """Address of a tensor: its byte b lies at ``address + b mod (rows * row_bytes)``.

    A whole tensor has all of its bytes there; a rolling buffer has fewer rows.
    """

    address: int
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.rows * self.row_bytes

    def rolls(self, feature_map: FeatureMap) -> bool:
        """Whether ``feature_map`` has bytes that wrap at this address."""
        return _end(feature_map) > self.rows * self.row_bytes


@lru_cache(maxsize=1 << 12)
def _end(feature_map: FeatureMap) -> int:
    """The end of a map's bytes. All stripes of a part ask for the same maps."""
    return max([span.end for span in feature_map.byte_ranges()], default=0)


_HOME = BufferPlace(0, 1, 1 << 62)
"""The constant feature maps' own addresses."""


def _slot(feature_map: FeatureMap, first: int, last: int, place: BufferPlace, axis: Axis) -> tuple[int, int]:
    """The address in ``place`` of rows ``first`` to ``last`` (exclusive) of a one-tile map, and the number of rows before they wrap."""
    count, step = last - first, axis.step(feature_map)
    slot = (feature_map.tiles.bases[0] + (first * step if first else 0)) % place.size
    # The stride of a single row is arbitrary.
    return slot, min(count, ceil_div(place.size - slot, step)) if count > 1 else count


def _rows_of(feature_map: FeatureMap, first: int, last: int, place: BufferPlace, axis: Axis) -> FeatureMap:
    """Rows ``first`` to ``last`` (exclusive) of a one-tile map at their addresses in ``place``; it wraps once at most.

    A tile box wraps by its second tile. A map of several tiles stays whole.
    """
    if not feature_map.is_single_tile:
        return feature_map.moved(place.address)
    count, (slot, before_wrap) = last - first, _slot(feature_map, first, last, place, axis)
    second = place.address + (slot + before_wrap * axis.step(feature_map)) % place.size if count > before_wrap else 0
    shape = axis.cut(feature_map.shape, count)
    return placed(feature_map, shape, axis.tiles(shape, place.address + slot, before_wrap, second))


def _map_form(feature_map: FeatureMap, first: int, last: int, place: BufferPlace, axis: Axis) -> tuple[Hashable, int]:
    """The key of :func:`_rows_of`, and the distance between its addresses and the tensor's.

    The key has all other facts that decide the result. The distance is a multiple of 16 bytes, so the addresses are aligned like the
    tensor's.
    """
    if not feature_map.is_single_tile:
        return None, 0
    count, (slot, before_wrap) = last - first, _slot(feature_map, first, last, place, axis)
    if count > before_wrap:
        return (count, before_wrap, slot, place.size), 0
    rest = slot if feature_map.region == CONSTANTS else slot % ALIGNMENT
    return (count, rest), slot - rest


class StripeForm(NamedTuple):
    """The key of a stripe: all facts that decide it except for its address.

    Stripes with one key differ only in the ``offsets`` of IFM, OFM and IFM2.
    """

    key: Hashable
    offsets: tuple[int, int, int]


_Maps = tuple[tuple[FeatureMap, BufferPlace], tuple["FeatureMap | None", BufferPlace], tuple[FeatureMap, BufferPlace]]
"""IFM, IFM2 and OFM, each with its tensor's address."""


def _maps(part: EthosuPart, places: Mapping[str, BufferPlace]) -> _Maps:
    """IFM, IFM2 and OFM of the part's operation, each with its tensor's address."""
    operation, second = part.operation, part.operation.ifm2

    def place(feature_map: FeatureMap, tensor: str) -> BufferPlace:
        return _HOME if feature_map.region == CONSTANTS else places[tensor]

    source2 = place(second, part.ifm2) if second is not None and part.ifm2 is not None else _HOME
    return (operation.ifm, place(operation.ifm, part.ifm)), (second, source2), (operation.ofm, places[part.ofm])


def _is_uncut(part: EthosuPart, start: int, end: int, maps: _Maps) -> bool:
    """Whether rows ``start`` to ``end`` are all of the part's OFM, and none of its maps wraps."""
    all_rows = start == 0 and end == part.axis.extent(part.operation.ofm.shape)
    return all_rows and not any(m and place.rolls(m) for m, place in maps)


def form(part: EthosuPart, start: int, end: int, places: Mapping[str, BufferPlace]) -> StripeForm:
    """The key of rows ``start`` to ``end`` (exclusive) of the part's OFM, for any addresses of its tensors."""
    (first, source), (second, source2), (ofm, target) = maps = _maps(part, places)
    if _is_uncut(part, start, end, maps):
        return StripeForm(None, (0, 0, 0))
    names = [name for name in (part.ifm, part.ofm, part.ifm2) if name is not None]
    if len(set(names)) < len(names):
        # Two maps of a tensor would both lie at its offset.
        return StripeForm((start, end, *(size for one in (source, target, source2) for size in one[1:])), (0, 0, 0))
    low, high, *padding = part.axis.read(part.operation, first, start, end)
    read, at = _map_form(first, low, high, source, part.axis)
    written, to = _map_form(ofm, start, end, target, part.axis)
    read2, at2 = (
        (None, 0) if second is None else _map_form(second, *part.axis.read(part.operation, second, start, end)[:2], source2, part.axis)
    )
    return StripeForm((end - start, read, written, read2, *padding), (at, to, at2))


def stripe(part: EthosuPart, start: int, end: int, places: Mapping[str, BufferPlace]) -> KernelOperation:
    """Rows ``start`` to ``end`` (exclusive) of the part's OFM, at the addresses of its tensors."""
    (first, source), (second, source2), (ofm, target) = maps = _maps(part, places)
    if _is_uncut(part, start, end, maps):
        return whole(part, places)
    operation, axis = part.operation, part.axis
    low, high, before, after = part.axis.read(part.operation, first, start, end)
    kernel = operation.kernel
    if end - start == 1 and axis.window(operation).stride > LONGEST_STRIDE:
        kernel = axis.without_stride(kernel)
    return operation.having(
        ifm=_rows_of(first, low, high, source, axis),
        ifm2=None if second is None else _rows_of(second, *part.axis.read(part.operation, second, start, end)[:2], source2, axis),
        ofm=_rows_of(ofm, start, end, target, axis),
        kernel=kernel,
        padding=axis.padding(operation.padding, before, after),
    )


def whole(part: EthosuPart, places: Mapping[str, BufferPlace]) -> KernelOperation:
    """The part's uncut operation, at the addresses of its tensors; constants keep theirs."""

    def moved(tensor: str | None, feature_map: FeatureMap) -> FeatureMap:
        if tensor is None or feature_map.region == CONSTANTS:
            return feature_map
        return feature_map.moved(places[tensor].address)

    return part.on_maps(moved)


def in_block(operation: KernelOperation, part: str, block: Shape3D | None, accelerator: Accelerator) -> KernelOperation:
    """The operation of a ``part`` in another block config (None: its own), with the SHRAM partition that this implies.

    InputError if the block does not fit, or weights are encoded for another depth.
    """
    if block is None or block == operation.block:
        return operation
    if operation.weights and block.depth != operation.block.depth:
        raise InputError(f"Part {part!r} has block depth {block.depth} but weights encoded for {operation.block.depth}: keep the depth.")
    shram = shram_partition(BlockQuery.of(operation), block, accelerator)
    if shram is None:
        raise InputError(f"Block {block} of part {part!r} does not fit into the SHRAM of {accelerator.name}: choose a smaller one.")
    return operation.having(block=block, shram=shram)
