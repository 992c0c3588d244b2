"""ResourceVariable: state that a runtime keeps outside all tensors from one inference to the next, and the operators that copy it."""

from __future__ import annotations

from msgspec import Struct

READ, ASSIGN = "READ_VARIABLE", "ASSIGN_VARIABLE"
COPIES_OF_STATE = (READ, ASSIGN)
"""Operators that copy a resource variable into a tensor, and a tensor into a resource variable."""


class ResourceVariable(Struct, frozen=True):
    """A resource variable: its name (container and shared name), and its bytes before the first inference."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """Bytes that a runtime keeps for it, outside the arena's plan."""
        return len(self.content)
