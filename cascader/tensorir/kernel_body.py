"""The body of a kernel in TensorIR: its operands, the addresses of their elements, and the loops and stores that all kernels share.

An element of a feature map lies in rolling rows, in a layout, in bricks: its index is an expression of its position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.views import view_of
from cascader.tensorir.numerics import LaneValue, OutputUnit, magnitude
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout


class StoredBuffer(Struct, frozen=True):
    """The storage of a tensor: ``size`` bytes. With ``rows`` it is a rolling buffer, and byte b is at b mod ``size``."""

    size: int
    rows: int | None = None


class Elements(Struct, frozen=True):
    """A feature map as a kernel's parameter: ``buffer`` begins ``offset`` bytes after the storage's begin.

    Its element 0 is ``start`` rows before the map's first element. With ``rows`` it rolls along ``axis``: its row y is at slot (``start`` +
    y) mod ``rows``.
    """

    writer: Writer
    buffer: Any
    feature_map: FeatureMap
    offset: int
    rows: int | None
    axis: Axis
    start: int

    def index(self, y: Any, x: Any, channel: Any) -> Any:
        """Index of an element. Along an axis of one element every position has the same index, because an IFM2 is repeated there."""
        fm, size = self.feature_map, self.feature_map.dtype.bytes
        slot, column = (0 if fm.shape.height == 1 else y), (0 if fm.shape.width == 1 else x)
        channel = 0 if fm.shape.depth == 1 else channel
        slot, column = (self._slot(slot), column) if self.axis is Axis.ROWS else (slot, self._slot(column))
        row = slot * (fm.strides.y // size)
        if fm.layout is Layout.NHWC:
            return row + column * (fm.strides.x // size) + channel
        return row + channel // BRICK * (fm.strides.c // size) + column * BRICK + channel % BRICK

    def _slot(self, row: Any) -> Any:
        """The address of a row, or of a column if the part is cut along columns."""
        slot = row + self.start if self.start else row
        if self.rows is None or self.start + self.axis.extent(self.feature_map.shape) <= self.rows:
            return slot
        return self.writer.tvm.tirx.truncmod(slot, self.writer.constant(self.rows, "int32"))

    def load(self, y: Any, x: Any, channel: Any, dtype: str = "int64") -> Any:
        """The element minus its zero point, as ``dtype``."""
        value = self.writer.cast(dtype, self.buffer[self.index(y, x, channel)])
        zero = self.feature_map.zero_point
        return value - self.writer.constant(zero, dtype) if zero else value

    def value(self, y: Any, x: Any, channel: Any) -> LaneValue:
        """The element minus its zero point, with its bound."""
        return LaneValue(self.load(y, x, channel), magnitude(self.feature_map))


def elements(writer: Writer, name: str, feature_map: FeatureMap, storage: StoredBuffer, axis: Axis, what: str) -> Elements:
    """The parameter ``name`` for a feature map in ``storage``. It begins with the map, or with the first slot if rows may wrap.

    InputError if the map's shape in memory cannot be expressed.
    """
    size = feature_map.dtype.bytes
    tiles, shape, strides = feature_map.tiles, feature_map.shape, feature_map.strides
    if tiles.height0 < shape.height or tiles.width0 < shape.width:
        raise InputError(f"{what} has a feature map of several tiles: one tile is expressed in TensorIR; schedule the network anew.")
    steps = [stride for stride, extent in ((strides.y, shape.height), (strides.x, shape.width), (strides.c, shape.depth)) if extent > 1]
    if any(stride % size for stride in steps):
        raise InputError(
            f"{what} has {strides} for elements of {size} bytes: multiples are expressed in TensorIR; schedule the network anew."
        )
    base, step = tiles.bases[0], axis.step(feature_map)
    rolls = storage.rows is not None and view_of(feature_map).step(axis.number) is not None
    if rolls and storage.size % step:
        raise InputError(
            f"{what} steps {step} bytes along a rolling buffer of {storage.size} bytes: they do not go together; schedule the network anew."
        )
    start, offset = divmod(base, step) if rolls else (0, base if storage.rows is None else base % storage.size)
    buffer = writer.pointer(name, str(feature_map.dtype), (storage.size - offset) // size)
    return Elements(writer, buffer, feature_map, offset, storage.size // step if rolls else None, axis, start)


def channel_blocks(operation: KernelOperation, block: int) -> list[tuple[int, int, int]]:
    """The whole blocks of output channels, then the block with the rest, each as (first channel, blocks, channels of a block)."""
    whole, rest = divmod(operation.ofm.shape.depth, block)
    return [(first, blocks, lanes) for first, blocks, lanes in ((0, whole, block), (whole * block, 1, rest)) if blocks and lanes]


class KernelBody(Struct, frozen=True):
    """Operands of a kernel, and its statements as they are written. A call makes ``count`` rows or columns of the OFM from ``first`` on.

    ``ifm2`` is None for a scalar or an operation with one operand, ``lut`` without a look-up table.
    """

    unit: OutputUnit
    ifm: Elements
    ifm2: Elements | None
    ofm: Elements
    lut: Any
    axis: Axis
    first: Any
    count: Any

    def groups(self, block: int) -> Iterator[tuple[Any, Any, Any, int]]:
        """Groups (row, column, first channel, channels) for every position of the stripe, in blocks of ``block`` channels and a rest.

        The loops stay open while a group is used.
        """
        shape, own = self.unit.operation.ofm.shape, (self.count, self.first)
        rows, columns = (own, (shape.width, 0)) if self.axis is Axis.ROWS else ((shape.height, 0), own)
        with self.unit.writer.loop("y", *rows) as y, self.unit.writer.loop("x", *columns) as x:
            for first, blocks, lanes in channel_blocks(self.unit.operation, block):
                with self.unit.writer.loop("block", blocks) as number:
                    yield y, x, first + number * lanes, lanes

    def store(self, y: Any, x: Any, channel: Any, value: Any) -> None:
        """Store a result, with zero point, clamp and look-up table, as an element of the OFM."""
        self.unit.writer.store(self.ofm.buffer, self.ofm.index(y, x, channel), self.unit.finished(value, self.lut))
