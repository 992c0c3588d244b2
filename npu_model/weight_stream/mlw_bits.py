"""Bits of a weight stream, least significant first: single fields, and the same field at many positions at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu_model.brief import Brief
from npu_model.errors import InputError

Int64 = npt.NDArray[np.int64]

WINDOW_STEP = 4
"""Log2 of the bits from one window to the next: windows start on every 16th bit."""
WINDOW_OFFSET = (1 << WINDOW_STEP) - 1
"""Mask of a bit position's offset in its window. The remaining bits of the window's 64, at least 49, can be read at once."""


class Bits(Brief, frozen=True):
    """``length`` bits, and the 64 bits after every 16th bit: one array, and its view as Python integers.

    The last window starts after the last bit and holds zeros; a later one raises IndexError. A caller that walks by ``windows`` compares
    its position with ``length`` at the end.
    """

    unshown = ("array", "windows")

    length: int
    array: npt.NDArray[np.uint64]
    windows: memoryview

    @classmethod
    def of(cls, stream: bytes) -> Bits:
        """The bits of a stream, in four times its memory."""
        halves = np.frombuffer(stream + bytes(8 + len(stream) % 2), "<u2").astype(np.uint64)
        count = halves.size - 3
        array = np.zeros(count, np.uint64)
        for i in range(4):
            array |= halves[i : i + count] << np.uint64(16 * i)
        return cls(8 * len(stream), array, array.data)

    def out_of_bits(self) -> InputError:
        """The error of a stream whose symbols go on after its last byte."""
        return InputError(
            f"A weight stream of {self.length // 8} bytes has no end mark: its symbols go on after the last byte, so the file is cut off "
            "or damaged; compile the network again."
        )

    def field(self, position: int, width: int) -> int:
        """The unsigned field of ``width`` bits (up to 49) at ``position``; InputError if it ends after the last bit."""
        if position + width > self.length:
            raise self.out_of_bits()
        return self.windows[position >> WINDOW_STEP] >> (position & WINDOW_OFFSET) & ((1 << width) - 1)

    def fields(self, positions: Int64, width: int) -> Int64:
        """The unsigned fields of ``width`` bits at ``positions``, all of which must end by the last bit."""
        if not width:
            return np.zeros(positions.size, np.int64)
        words = self.array[positions >> WINDOW_STEP] >> (positions & WINDOW_OFFSET).astype(np.uint64)
        found: Int64 = (words & np.uint64((1 << width) - 1)).astype(np.int64)
        return found
