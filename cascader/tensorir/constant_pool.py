"""The constants that compiled kernels read beside those of the network: decoded weights, channel tables and look-up tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.shapes import round_up

ALIGNMENT = 16
"""Bytes that every array begins at a multiple of: the widest vector that compilers load by default."""


class ConstantPool:
    """Arrays in one block of bytes, each kept once."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._offsets: dict[bytes, int] = {}

    def add(self, values: NDArray[Any]) -> int:
        """Offset of the array's bytes in the block."""
        content = values.tobytes()
        if content not in self._offsets:
            self._content += bytes(round_up(len(self._content), ALIGNMENT) - len(self._content))
            self._offsets[content] = len(self._content)
            self._content += content
        return self._offsets[content]

    def content(self) -> NDArray[np.uint8]:
        """The block; one byte if nothing was added, as no tensor of the runtime is empty."""
        return np.array(np.frombuffer(bytes(self._content) or b"\0", np.uint8))
