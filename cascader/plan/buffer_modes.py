"""Buffer modes: how the stripes of a tensor are kept in the cascade memory, and the room that this takes."""

from __future__ import annotations

from enum import Enum
from math import prod

from npu_model.values import dataclass


class BufferMode(Enum):
    """Ways to keep the stripes of a tensor in the cascade memory.

    RECOMPUTE holds one stripe. Elements that the next stripe has in common with it are made, or copied in, again, unless
    the next stripe lies inside the one held. ROLLING holds the elements that are still needed and makes or copies each
    element once: on one axis addresses are modulo the buffer, on the others the tensor is whole. DOUBLE is for tensors at
    home in another memory: two stripes, of which one is copied while the other one is used.
    """

    RECOMPUTE = "recompute"
    ROLLING = "rolling"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class StripeBuffer:
    """Room for ``copies`` arrays of ``shape``; rows of ``axis`` (None: none) lie at their index modulo the shape.

    ``origin`` is the tensor's element that a rolling buffer's first one holds, but for ``axis``.
    """

    tensor: str
    mode: BufferMode
    shape: tuple[int, ...]
    element_size: int
    axis: int | None = None
    origin: tuple[int, ...] = ()
    copies: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return self.copies * prod(self.shape) * self.element_size
