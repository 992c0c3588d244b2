"""The memory of a Program: regions and SHRAM, with a mask of written bytes.

Feature maps are gathered and scattered as the hardware addresses them (tiles, strides, layout). A byte is defined if it is a constant, an
input, or a result of an operation or a DMA. Reading another byte is an error. A DMA transfer copies undefined bytes together with their
state. Writing a partial NHCWB16 brick leaves its unused channels undefined, because the hardware moves whole bricks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import BRICK, MOST_ELEMENTS, ByteRange, DmaOperation, FeatureMap, Layout, MapStorage, Program, Region, RegionRole
from npu_model.program.operations import INDEX_BYTES
from sim.functional.boxes import ElementBox, boxes
from sim.functional.regions import Regions, Store, numpy_dtype

_SHRAM_BANK = 1024
_WRITTEN: dict[int, np.dtype[Any]] = {size: np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}


class RegionBytes(Regions):
    """The memories of one Program.

    Regions 1 and 2 are one memory when they have the same size, as the driver binds Vela's scratch and fast scratch to one tensor unless
    the memory mode is Dedicated_Sram; all other regions are separate.
    """

    def __init__(self, program: Program, arena: Store | None = None, homes: Mapping[int, Store] | None = None) -> None:
        """Fresh memories with the program's constants; ``arena`` is used for region 1 if given, and ``homes`` for home regions."""
        super().__init__({})
        self.chained: dict[int, NDArray[Any]] = {}
        self.accumulators: NDArray[np.int64] | None = None
        self.shram = Store(accelerator(program.accelerator).shram_banks * _SHRAM_BANK)
        for region in program.regions:
            known = homes.get(region.index) if homes and region.role is RegionRole.HOME else None
            self.regions[region.index] = self._store(region, arena, program) if known is None else known

    def _store(self, region: Region, arena: Store | None, program: Program) -> Store:
        if region.role is RegionRole.ARENA and arena is not None:
            return arena
        if region.role is RegionRole.FAST_SCRATCH:
            for other in program.regions:
                if other.role is RegionRole.ARENA and other.size == region.size and other.index in self.regions:
                    return self.regions[other.index]
        return Store(region.size, region.content)

    def read_shram(self, address: int, length: int, user: str) -> bytes:
        """Bytes of the shared buffer (a LUT), all defined."""
        if address + length > len(self.shram):
            raise InputError(f"{user} reads a LUT to byte {address + length - 1:#x} of a SHRAM of {len(self.shram)}: use a lower slot.")
        written = self.shram.written[address : address + length]
        if not written.all():
            byte = address + int(np.argmin(written))
            raise InputError(f"{user} reads byte {byte:#x} of the LUT memory, which was never written: a DMA to SHRAM is missing.")
        return self.shram.data[address : address + length].tobytes()

    def require_inside(self, fm: FeatureMap, user: str) -> None:
        """InputError unless the feature map lies inside its region, and its size is possible on a device."""
        if fm.shape.elements > MOST_ELEMENTS:
            raise InputError(f"{user} has a feature map of {fm.shape} elements: {MOST_ELEMENTS} is the limit; the stream is damaged.")
        for box in boxes(fm):
            self._region(fm.region, box.end, user)

    def gather(self, fm: FeatureMap, user: str) -> NDArray[Any]:
        """The feature map as an array of height x width x depth; InputError if an element was never written."""
        self.require_inside(fm, user)
        if fm.storage is not MapStorage.TILES:
            return self._chained(fm, user)
        shape = fm.shape
        dtype = numpy_dtype(fm.dtype)
        values = np.empty((shape.height, shape.width, shape.depth), dtype)
        store = self.regions[fm.region]
        for box in boxes(fm):
            if not store.written[box.lowest : box.end].all():
                self._require_box(store, fm, box, user)
            view = np.ndarray(box.shape, dtype, store.data.data, box.start, box.strides)
            rows, columns = box.shape[:2]
            values[box.y : box.y + rows, box.x : box.x + columns, box.c : box.c + box.channels] = view.reshape(rows, columns, -1)
        return values

    def _chained(self, fm: FeatureMap, user: str) -> NDArray[Any]:
        """The map that the previous kernel left in a chaining buffer."""
        shape, found = fm.shape, self.chained.get(fm.region) if fm.storage is MapStorage.CHAINED else None
        if found is None or found.shape != (shape.height, shape.width, shape.depth) or found.dtype != numpy_dtype(fm.dtype):
            raise InputError(f"{user} reads {shape} {fm.dtype} elements of chaining buffer {fm.region}, where others or none are.")
        return found

    def require_defined(self, fm: FeatureMap, user: str) -> None:
        """InputError if an element of the feature map was never written."""
        self.require_inside(fm, user)
        store = self.regions[fm.region]
        for box in boxes(fm):
            if not store.written[box.lowest : box.end].all():
                self._require_box(store, fm, box, user)

    @staticmethod
    def _require_box(store: Store, fm: FeatureMap, box: ElementBox, user: str) -> None:
        mask_type = _WRITTEN[fm.dtype.bytes]
        every = int.from_bytes(b"\x01" * fm.dtype.bytes, "little")
        defined = np.ndarray(box.shape, mask_type, store.written.data, box.start, box.strides) == every
        if not defined.all():
            y, x, brick, lane = (int(i) for i in np.argwhere(~defined)[0])
            element = (box.y + y, box.x + x, box.c + brick * box.shape[3] + lane)
            raise InputError(
                f"{user} reads element {element} at byte {fm.address(*element):#x} of region {fm.region}, "
                "which was never written: the stream is wrong."
            )

    def scatter(self, fm: FeatureMap, values: NDArray[Any], user: str) -> None:
        """Write an array of height x width x depth that holds values of the feature map's type."""
        self.require_inside(fm, user)
        if fm.storage is not MapStorage.TILES:
            if fm.storage is MapStorage.CHAINED:
                self.chained[fm.region] = values
            return
        store = self.regions[fm.region]
        for box in boxes(fm):
            rows, columns, bricks, lanes = box.shape
            part = values[box.y : box.y + rows, box.x : box.x + columns, box.c : box.c + box.channels]
            view = np.ndarray(box.shape, numpy_dtype(fm.dtype), store.data.data, box.start, box.strides)
            view[...] = part.reshape(rows, columns, bricks, lanes)
        self.define(fm, user)

    def define(self, fm: FeatureMap, user: str) -> None:
        """Record that a feature map inside its region is written. The unused channels of its partial bricks become undefined."""
        mask_type = _WRITTEN[fm.dtype.bytes]
        every = int.from_bytes(b"\x01" * fm.dtype.bytes, "little")
        store = self.regions[fm.region]
        for box in boxes(fm):
            np.ndarray(box.shape, mask_type, store.written.data, box.start, box.strides)[...] = every
            if fm.layout is Layout.NHCWB16 and box.shape[3] < BRICK:
                unused = box.unused_lanes(fm.dtype.bytes)
                self._region(fm.region, unused.end, user)
                np.ndarray(unused.shape, mask_type, store.written.data, unused.start, unused.strides)[...] = 0

    def transfer(self, dma: DmaOperation, user: str) -> None:
        """Copy the bytes of a DMA transfer with their state."""
        if dma.rows is not None:
            self._move_rows(dma, user)
            return
        source = self._region(dma.source.region, dma.source.end, user)
        end = dma.destination + dma.length
        if dma.to_shram and end > len(self.shram):
            raise InputError(f"{user} writes to byte {end - 1:#x} of a SHRAM of {len(self.shram)} bytes: the stream is damaged.")
        target = self.shram if dma.to_shram else self._region(dma.destination_region, end, user)
        span = slice(dma.source.start, dma.source.end)
        # A copy, as source and destination may be one memory and overlap.
        target.data[dma.destination : end] = source.data[span].copy()
        target.written[dma.destination : end] = source.written[span].copy()

    def _move_rows(self, dma: DmaOperation, user: str) -> None:
        """Copy the rows of a transfer one by one; an indexed side takes its row numbers from memory."""
        rows = dma.rows
        if rows is None or dma.to_shram:
            raise InputError(f"{user} writes rows to the memory of look-up tables: only single runs are read.")
        numbers = range(rows.count)
        for plane in range(rows.planes):
            picked: Sequence[int] = numbers
            if rows.indices is not None:
                start = rows.indices.address + plane * rows.indices.skip
                content = self.read(ByteRange(rows.indices.region, start, start + INDEX_BYTES * rows.count), user)
                picked = np.frombuffer(content, "<i4").tolist()
                if min(picked) < 0 or max(picked) > rows.indices.largest:
                    raise InputError(f"{user} is asked for rows {min(picked)} to {max(picked)}: 0 to {rows.indices.largest} exist.")
            by_source = rows.indices is not None and rows.indices.picks_source
            by_destination = rows.indices is not None and not by_source
            for number, pick in zip(numbers, picked, strict=True):
                start = dma.source.start + plane * rows.source[1] + (pick if by_source else number) * rows.source[0]
                place = dma.destination + plane * rows.destination[1] + (pick if by_destination else number) * rows.destination[0]
                source = ByteRange(dma.source.region, start, start + dma.length)
                self.transfer(DmaOperation(source, place, dma.destination_region), user)
