"""The bus between an NPU and its system: three functions, and the one that binds buffers to addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from npu_model.errors import InputError


class BusError(Exception):
    """No memory answers at an address, or it cannot be written. The NPU sees a bus abort."""


class Bus(Protocol):
    """The system as the NPU reaches it. Addresses are physical: base address of a region plus offset in it."""

    def read(self, address: int, length: int) -> bytes:
        """Return ``length`` bytes from ``address`` on; BusError if a byte is missing."""

    def write(self, address: int, data: bytes) -> None:
        """Store bytes from ``address`` on; BusError if any of them cannot be stored."""

    def interrupt(self, level: bool) -> None:  # noqa: FBT001  # a line has a level, high or low
        """Set the interrupt line to ``level``."""


class BufferBus:
    """A bus whose memories are buffers (bytearray, memoryview, numpy array, mmap) by their address.

    A buffer that cannot be written is read-only memory. ``raised`` is the level of the interrupt line, ``interrupts`` counts how often
    it rose. InputError if two memories share an address.
    """

    def __init__(self, memories: Mapping[int, Any]) -> None:
        self._memories = sorted(((address, memoryview(buffer).cast("B")) for address, buffer in memories.items()), key=lambda one: one[0])
        end = 0
        for address, view in self._memories:
            if address < end:
                raise InputError(f"The memory at {address:#x} overlaps the memory before it, which ends at {end:#x}: separate them.")
            end = address + len(view)
        self.raised = False
        self.interrupts = 0

    def _find(self, address: int, length: int) -> tuple[memoryview, int]:
        for first, view in self._memories:
            if first <= address and address + length <= first + len(view):
                return view, address - first
        raise BusError(f"no memory has the {length} bytes from {address:#x} on")

    def read(self, address: int, length: int) -> bytes:
        """``length`` bytes from ``address`` on; BusError if no one memory has all of them."""
        view, start = self._find(address, length)
        return view[start : start + length].tobytes()

    def write(self, address: int, data: bytes) -> None:
        """Store bytes from ``address`` on; BusError if no one memory has room for all of them, or it is read-only."""
        view, start = self._find(address, len(data))
        if view.readonly:
            raise BusError(f"the memory at {address:#x} is read-only")
        view[start : start + len(data)] = data

    def interrupt(self, level: bool) -> None:  # noqa: FBT001  # see Bus
        """Record the level."""
        self.interrupts += level and not self.raised
        self.raised = level
