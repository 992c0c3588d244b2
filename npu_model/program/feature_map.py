"""Feature maps as the NPU addresses them: region, tiles, strides, layout and number format."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from npu_model.program.modes import MapStorage
from npu_model.shapes import Shape3D, ceil_div

BRICK = 16
"""Channels of one NHCWB16 brick."""

MOST_ELEMENTS = 1 << 28
"""The most elements of a feature map: more than any map in the memories of a U55 has, and few enough for every reader of a map."""


class Layout(Enum):
    """Order of the elements in memory; NHCWB16 stores channels in bricks of 16."""

    __hash__ = object.__hash__  # An Enum's own runs in Python, at each look-up.

    NHWC = "NHWC"
    NHCWB16 = "NHCWB16"


class DataType(Struct, frozen=True, order=True):
    """An element type: its width in bits and whether it is signed. The NPU has integers only, CPU operators have ``floating`` ones too."""

    bits: int
    signed: bool
    floating: bool = False

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def minimum(self) -> int:
        """Smallest value that an integer type holds."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """Largest value that an integer type holds."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    def __str__(self) -> str:
        return f"{'float' if self.floating else 'int' if self.signed else 'uint'}{self.bits}"


class Tiles(Struct, frozen=True):
    """The four-tile box of a feature map: how rows and columns map to base addresses.

    Columns below ``width0`` are the left tiles, the others the right ones. Left rows below
    ``height0`` lie at ``bases[0]``, the others at ``bases[2]``; right rows below ``height1`` lie at
    ``bases[1]``, the others at ``bases[3]``. Inside a tile rows and columns count from zero again.
    Rolling buffers wrap by this means. (Registers WIDTH0_M1, HEIGHT0_M1, HEIGHT1_M1 and BASE0 to BASE3.)
    """

    height0: int
    height1: int
    width0: int
    bases: tuple[int, int, int, int]

    @classmethod
    def single(cls, shape: Shape3D, base: int) -> Tiles:
        """One tile that holds the whole of ``shape`` at ``base``."""
        return cls(shape.height, shape.height, shape.width, (base, 0, 0, 0))

    def locate(self, y: int, x: int) -> tuple[int, int, int]:
        """Base address and the row and column inside the tile that holds row ``y``, column ``x``."""
        right = x >= self.width0
        height = self.height1 if right else self.height0
        below = y >= height
        base = self.bases[int(right) + 2 * int(below)]
        return base, y - height if below else y, x - self.width0 if right else x


class Strides(Struct, frozen=True):
    """Address steps in bytes: from row to row, column to column, and (NHCWB16) brick to brick."""

    y: int
    x: int
    c: int


class ByteRange(Struct, frozen=True):
    """Bytes ``start`` (inclusive) to ``end`` (exclusive) of one region."""

    region: int
    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.end - self.start

    def overlaps(self, other: ByteRange) -> bool:
        """Whether the two ranges share a byte of the same region."""
        return self.region == other.region and self.start < other.end and other.start < self.end


class FeatureMap(Struct, frozen=True):
    """One IFM, IFM2 or OFM of a kernel operation.

    ``shape`` is the addressed height, width and depth in elements. ``zero_point`` is the value of the zero-point register. ``strides`` are
    in bytes; a negative one steps backwards. A map whose ``storage`` is not memory touches no byte.
    """

    region: int
    shape: Shape3D
    dtype: DataType
    layout: Layout
    tiles: Tiles
    strides: Strides
    zero_point: int = 0
    storage: MapStorage = MapStorage.TILES

    def address(self, y: int, x: int, c: int) -> int:
        """Byte address of element (y, x, c) in its region.

        NHWC: base + y*sy + x*sx + c*bytes. NHCWB16: base + y*sy + (c//16)*sc + x*16*bytes + (c%16)*bytes.
        """
        base, row, column = self.tiles.locate(y, x)
        size = self.dtype.bytes
        if self.layout is Layout.NHWC:
            return base + row * self.strides.y + column * self.strides.x + c * size
        return base + row * self.strides.y + column * BRICK * size + (c // BRICK) * self.strides.c + (c % BRICK) * size

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> FeatureMap:
        """Some rows and columns, first and last (exclusive), of a map of one tile."""
        shape = Shape3D(rows[1] - rows[0], columns[1] - columns[0], self.shape.depth)
        return self.at(self.address(rows[0], columns[0], 0), shape)

    def at(self, base: int, shape: Shape3D | None = None) -> FeatureMap:
        """The elements of a single tile from ``base`` on, with the strides of this map; all its elements, or ``shape``."""
        shape = shape or self.shape
        return replace(self, shape=shape, tiles=Tiles.single(shape, base))

    def moved(self, by: int, region: int | None = None) -> FeatureMap:
        """The map ``by`` bytes further on, in its region or another one; bases of unused tiles stay."""
        tiles = self.tiles
        first, second, third, fourth = tiles.bases
        right, below = self.shape.width > tiles.width0, self.shape.height > tiles.height0
        bases = (
            first + by,
            second + by if right else second,
            third + by if below else third,
            fourth + by if right and self.shape.height > tiles.height1 else fourth,
        )
        there = self.region if region is None else region
        placed = Tiles(tiles.height0, tiles.height1, tiles.width0, bases)
        return FeatureMap(there, self.shape, self.dtype, self.layout, placed, self.strides, self.zero_point, self.storage)

    @property
    def base(self) -> int:
        """Address of the first tile."""
        return self.tiles.bases[0]

    @property
    def is_single_tile(self) -> bool:
        """Whether the first base and the strides address all of it."""
        return self.tiles.height0 >= self.shape.height and self.tiles.width0 >= self.shape.width

    def tile_boxes(self) -> Iterator[tuple[int, int, int, int, int]]:
        """The non-empty tiles as (base address, first row, first column, rows, columns)."""
        if self.storage is not MapStorage.TILES:
            return
        height, width = self.shape.height, self.shape.width
        for right in (0, 1):
            x0, columns = (self.tiles.width0, width - self.tiles.width0) if right else (0, min(width, self.tiles.width0))
            split = self.tiles.height1 if right else self.tiles.height0
            for below in (0, 1):
                y0, rows = (split, height - split) if below else (0, min(height, split))
                if rows > 0 and columns > 0:
                    yield self.tiles.bases[right + 2 * below], y0, x0, rows, columns

    def steps(self) -> tuple[int, int, int]:
        """Bytes from row to row, from column to column and from 16 channels to the next 16, each 0 if there is only one."""
        brick = BRICK * self.dtype.bytes
        column, channels = (brick, self.strides.c) if self.layout is Layout.NHCWB16 else (self.strides.x, brick)
        return (
            self.strides.y if self.shape.height > 1 else 0,
            column if self.shape.width > 1 else 0,
            channels if self.shape.depth > BRICK else 0,
        )

    def same_places(self, other: FeatureMap) -> bool:
        """Whether element (y, x, c) of both has one address.

        Layouts may differ and still agree: the bricks of a single pixel are contiguous, as its channels are.
        """
        return (
            (self.region, self.shape, self.dtype.bytes, self.steps()) == (other.region, other.shape, other.dtype.bytes, other.steps())
        ) and tuple(self.tile_boxes()) == tuple(other.tile_boxes())

    def byte_ranges(self) -> tuple[ByteRange, ...]:
        """The bytes from the lowest to the highest element of every non-empty tile, in address order.

        Gaps inside a tile (rows of a wider tensor, channels of a concatenation) are inside the range; the
        unused channels of the last NHCWB16 brick are inside it too, as the hardware moves whole bricks.
        """
        if self.storage is not MapStorage.TILES:
            return ()
        if self.is_single_tile:
            return (self._tile_range(self.tiles.bases[0], self.shape.height, self.shape.width),)
        ranges = (self._tile_range(base, rows, columns) for base, _, _, rows, columns in self.tile_boxes())
        return tuple(sorted(ranges, key=lambda r: r.start))

    def _tile_range(self, base: int, rows: int, columns: int) -> ByteRange:
        """The bytes of a tile from its lowest to its highest element."""
        down = (rows - 1) * self.strides.y
        if self.layout is Layout.NHWC:
            across, run = (columns - 1) * self.strides.x, self.shape.depth * self.dtype.bytes
        else:
            across, run = (ceil_div(self.shape.depth, BRICK) - 1) * self.strides.c, columns * BRICK * self.dtype.bytes
        back = min(down, 0) + min(across, 0)
        return ByteRange(self.region, base + back, base + down + across - back + run)
