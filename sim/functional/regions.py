"""Memories by region: bytes, each with a mark if it was written, and arrays in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import Binding, ByteRange, DataType, Program, RegionRole

UNDEFINED = 0xA5
"""The value of an unwritten byte. It is not zero, because zero would hide mistakes."""

MAX_STORE = 1 << 29
"""Largest memory that is run; it takes twice its bytes here. Files may claim 4 GiB, which no system with a U55 has."""

_DTYPES: dict[DataType, np.dtype[Any]] = {
    DataType(8, signed=True): np.dtype("<i1"),
    DataType(8, signed=False): np.dtype("<u1"),
    DataType(16, signed=True): np.dtype("<i2"),
    DataType(16, signed=False): np.dtype("<u2"),
    DataType(32, signed=True): np.dtype("<i4"),
    DataType(32, signed=False): np.dtype("<u4"),
    DataType(64, signed=True): np.dtype("<i8"),
    DataType(64, signed=False): np.dtype("<u8"),
    DataType(16, signed=True, floating=True): np.dtype("<f2"),
    DataType(32, signed=True, floating=True): np.dtype("<f4"),
    DataType(64, signed=True, floating=True): np.dtype("<f8"),
}


def numpy_dtype(dtype: DataType) -> np.dtype[Any]:
    """The little-endian numpy type of an element type."""
    return _DTYPES[dtype]


class Store:
    """One memory: its bytes and, byte for byte, whether each is defined (1) or not (0)."""

    def __init__(self, size: int, content: bytes = b"") -> None:
        if size > MAX_STORE:
            raise InputError(
                f"A memory of the network has {size} bytes: {MAX_STORE} is the most that is run bit by bit; compile for smaller ones."
            )
        self.data: NDArray[np.uint8] = np.full(size, UNDEFINED, np.uint8)
        self.written: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self.put(0, content)

    def __len__(self) -> int:
        return len(self.data)

    def put(self, address: int, content: bytes | NDArray[np.uint8]) -> None:
        """Write defined bytes at ``address``; the caller has checked the bounds."""
        values = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        self.data[address : address + len(values)] = values
        self.written[address : address + len(values)] = 1


class Regions:
    """Memories by region index."""

    def __init__(self, regions: dict[int, Store]) -> None:
        self.regions = regions

    def _region(self, index: int, end: int, user: str) -> Store:
        store = self.regions.get(index)
        if store is None:
            raise InputError(f"{user} uses region {index}: the program has regions {sorted(self.regions)}; the stream is damaged.")
        if end > len(store):
            raise InputError(f"{user} reaches byte {end - 1:#x} of region {index}, which has {len(store)} bytes: the stream is damaged.")
        return store

    def read(self, span: ByteRange, user: str) -> bytes:
        """The bytes of a range, all defined; InputError names ``user`` and the address otherwise."""
        store = self._region(span.region, span.end, user)
        self._require(store, span, user)
        return store.data[span.start : span.end].tobytes()

    @staticmethod
    def _require(store: Store, span: ByteRange, user: str) -> None:
        written = store.written[span.start : span.end]
        if not written.all():
            byte = span.start + int(np.argmin(written))
            raise InputError(f"{user} reads byte {byte:#x} of region {span.region}, which was never written: the stream is wrong.")

    def place(self, binding: Binding, values: NDArray[Any]) -> None:
        """Write an array, row-major, at its binding."""
        store = self._region(binding.region, binding.byte_range.end, f"Tensor {binding.name!r}")
        content = np.ascontiguousarray(values, numpy_dtype(binding.dtype))
        store.put(binding.address, content.reshape(-1).view(np.uint8))

    def fetch(self, binding: Binding, role: str = "Output") -> NDArray[Any]:
        """Read an array, row-major, from its binding; ``role`` names it in an InputError."""
        content = self.read(binding.byte_range, f"{role} {binding.name!r}")
        values: NDArray[Any] = np.frombuffer(content, numpy_dtype(binding.dtype))
        return np.array(values.reshape(binding.shape))

    def move(self, source: Binding, target: Binding) -> None:
        """Copy the bytes of one array to another of the same size, with their state."""
        start, end = source.byte_range, target.byte_range
        origin = self._region(start.region, start.end, f"Tensor {source.name!r}")
        goal = self._region(end.region, end.end, f"Tensor {target.name!r}")
        if start.length != end.length:
            raise InputError(
                f"Tensor {source.name!r} of {start.length} bytes is copied to {target.name!r} of {end.length}: compile the network again."
            )
        goal.data[end.start : end.end] = origin.data[start.start : start.end].copy()
        goal.written[end.start : end.end] = origin.written[start.start : start.end].copy()


def home_stores(programs: Iterable[Program]) -> dict[int, Store]:
    """A memory for each home region of some programs, which share it."""
    sizes: dict[int, int] = {}
    for program in programs:
        for region in program.regions:
            if region.role is RegionRole.HOME:
                sizes[region.index] = max(sizes.get(region.index, 0), region.size)
    return {index: Store(size) for index, size in sizes.items()}
