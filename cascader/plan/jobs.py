"""Jobs, copies of constants and buffers with addresses: they make an order of Parts concrete on any device."""

from __future__ import annotations

from msgspec import Struct

from npu_model.shapes import Shape3D


class Job(Struct, frozen=True):
    """One run of a Part; ``block`` is the device's block config, None for a Part that has none.

    ``rows`` are the first and the last (exclusive) row of the Part's output that it makes; None makes all of them.
    """

    part: str
    block: Shape3D | None = None
    rows: tuple[int, int] | None = None


class Copy(Struct, frozen=True):
    """Before job ``step`` the constants of ``part`` are copied to ``address`` of the arena, where its jobs from ``step`` on read them.

    A later copy of the same part replaces an earlier one; jobs before the first copy read the constants where they are. The parts
    ``sharing`` have the same constants, byte for byte, and read this copy too.
    """

    part: str
    step: int
    address: int
    sharing: tuple[str, ...] = ()

    @property
    def readers(self) -> tuple[str, ...]:
        """All parts that read the copy."""
        return (self.part, *self.sharing)


class Buffer(Struct, frozen=True):
    """Bytes ``address`` to ``address + size`` of the arena, held from step ``start`` until before step ``end``.

    All of ``tensors`` start at ``address``: more than one if each takes over the storage of its predecessor. With ``rows`` the buffer
    rolls: it holds that many rows, of ``row_bytes`` each, and row y of a tensor lies at ``address + (y mod rows) * row_bytes``. Otherwise a
    tensor lies in it unchanged, up to the last byte that is ever used. Buffers may share bytes as long as no two rows that are needed at
    one step do.
    """

    tensors: tuple[str, ...]
    address: int
    size: int
    start: int
    end: int
    rows: int | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a rolling buffer; all bytes of another one."""
        return self.size // (self.rows or 1)
