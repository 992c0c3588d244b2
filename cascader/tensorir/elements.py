"""Where an element of a feature map lies in its storage, as TensorIR index expressions: rolling rows, layouts and bricks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cascader.ethosu.axis import Axis
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, Layout


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a tensor lies: ``size`` bytes; with ``rows`` they are a rolling buffer, and row y is at slot y mod ``rows``."""

    size: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Channels:
    """Consecutive channels: ``first`` counts whole bricks of 16, and ``lanes`` are a brick's or the last one's remainder."""

    brick: Any
    lanes: int


@dataclass(frozen=True, slots=True)
class Elements:
    """A feature map as a kernel's parameter: ``buffer`` begins with its first element, and rolls along ``axis`` if it has ``rows``."""

    buffer: Any
    feature_map: FeatureMap
    rows: int | None
    axis: Axis

    @property
    def dtype(self) -> str:
        """TensorIR's name of the element type."""
        return str(self.feature_map.dtype)

    def index(self, writer: Writer, y: Any, x: Any, channel: tuple[Any, Any]) -> Any:
        """Index of an element; ``channel`` is (brick, lane), which is channel ``16 * brick + lane``."""
        fm = self.feature_map
        size, (brick, lane) = fm.dtype.bytes, channel
        slot = 0 if fm.shape.height == 1 else y
        column = 0 if fm.shape.width == 1 else x
        if self.rows is not None and self.rows < self.axis.extent(fm.shape):
            rows, modulo = writer.constant(self.rows, "int32"), writer.tvm.tirx.truncmod
            slot, column = (modulo(slot, rows), column) if self.axis is Axis.ROWS else (slot, modulo(column, rows))
        row = slot * (fm.strides.y // size)
        if fm.layout is Layout.NHWC:
            return row + column * (fm.strides.x // size) + brick * BRICK + lane
        return row + brick * (fm.strides.c // size) + column * BRICK + lane

    def load(self, writer: Writer, y: Any, x: Any, channel: tuple[Any, Any], dtype: str = "int64") -> Any:
        """The element without its zero point, as ``dtype``."""
        value = writer.cast(dtype, self.buffer[self.index(writer, y, x, channel)])
        zero = self.feature_map.zero_point
        return value - writer.constant(zero, dtype) if zero else value

    @property
    def bound(self) -> int:
        """Largest magnitude of an element without its zero point."""
        fm = self.feature_map
        return max(abs(fm.dtype.minimum - fm.zero_point), abs(fm.dtype.maximum - fm.zero_point))


def elements(writer: Writer, name: str, feature_map: FeatureMap, storage: Storage, extent: int, axis: Axis, what: str) -> Elements:
    """The parameter ``name`` for a feature map in ``storage``, of which it points to the last ``extent`` bytes.

    InputError if the map's shape in memory cannot be expressed.
    """
    size = feature_map.dtype.bytes
    tiles, shape, strides = feature_map.tiles, feature_map.shape, feature_map.strides
    if tiles.height0 < shape.height or tiles.width0 < shape.width:
        raise InputError(f"{what} has a feature map of several tiles: one tile is expressed in TensorIR; schedule the network anew.")
    if any(stride % size for stride in (strides.y, strides.x, strides.c)):
        raise InputError(
            f"{what} has {strides} for elements of {size} bytes: multiples are expressed in TensorIR; schedule the network anew."
        )
    step = axis.step(feature_map)
    if storage.rows is not None and axis.extent(shape) > 1 and step * storage.rows != storage.size:
        raise InputError(
            f"{what} steps {step} bytes along a rolling buffer of {storage.size} bytes and {storage.rows} rows: they do not go together; "
            "schedule the network anew."
        )
    buffer = writer.pointer(name, str(feature_map.dtype), extent // size)
    return Elements(buffer, feature_map, storage.rows, axis)


def channel_groups(writer: Writer, depth: int) -> Iterator[Channels]:
    """Groups of 16 channels, in a loop over whole bricks that is open while a group is used, and then the rest."""
    whole, rest = divmod(depth, BRICK)
    if whole:
        with writer.loop("brick", whole) as brick:
            yield Channels(brick, BRICK)
    if rest:
        yield Channels(writer.constant(whole, "int32"), rest)
