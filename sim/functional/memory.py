"""The bytes that a Program works on: regions and SHRAM, with a mask of what was ever written.

Feature maps are gathered and scattered as the hardware addresses them (tiles, strides, layout). Every byte knows
whether it is defined: constants and inputs are, so is what an operation or a DMA wrote; reading any other byte is an error.
A DMA transfer copies undefined bytes and their state alike. Writing a partial NHCWB16 brick leaves its unused
channels undefined, as the hardware moves whole bricks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import BRICK, MOST_ELEMENTS, DmaOperation, FeatureMap, Layout, Program, Region, RegionRole
from sim.functional.boxes import ElementBox, boxes
from sim.functional.regions import Regions, Store, numpy_dtype

_SHRAM_BANK = 1024
_WRITTEN: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}


class RegionBytes(Regions):
    """The memories of one Program.

    Regions 1 and 2 are one memory when they have the same size, as the driver binds Vela's scratch and fast scratch to
    one tensor unless the memory mode is Dedicated_Sram; all other regions are apart.
    """

    def __init__(self, program: Program, arena: Store | None = None, homes: Mapping[int, Store] | None = None) -> None:
        """Fresh memories with the program's constants; ``arena`` is used for region 1 if given, and ``homes`` for home regions."""
        super().__init__({})
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
        """InputError unless all of the feature map lies inside its region and its size is one that a device has."""
        if fm.shape.elements > MOST_ELEMENTS:
            raise InputError(f"{user} has a feature map of {fm.shape} elements: {MOST_ELEMENTS} is the limit; the stream is damaged.")
        for box in boxes(fm):
            self._region(fm.region, box.end, user)

    def gather(self, fm: FeatureMap, user: str) -> NDArray[Any]:
        """The feature map as an array of height x width x depth; InputError if an element was never written."""
        self.require_inside(fm, user)
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
        store = self.regions[fm.region]
        for box in boxes(fm):
            rows, columns, bricks, lanes = box.shape
            part = values[box.y : box.y + rows, box.x : box.x + columns, box.c : box.c + box.channels]
            view = np.ndarray(box.shape, numpy_dtype(fm.dtype), store.data.data, box.start, box.strides)
            view[...] = part.reshape(rows, columns, bricks, lanes)
        self.define(fm, user)

    def define(self, fm: FeatureMap, user: str) -> None:
        """Note that the feature map, which lies inside its region, is written; what its partial bricks leave unused no longer is."""
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
        source = self._region(dma.source.region, dma.source.end, user)
        end = dma.destination + dma.length
        if dma.to_shram and end > len(self.shram):
            raise InputError(f"{user} writes to byte {end - 1:#x} of a SHRAM of {len(self.shram)} bytes: the stream is damaged.")
        target = self.shram if dma.to_shram else self._region(dma.destination_region, end, user)
        span = slice(dma.source.start, dma.source.end)
        # A copy, as source and destination may be one memory and overlap.
        target.data[dma.destination : end] = source.data[span].copy()
        target.written[dma.destination : end] = source.written[span].copy()
