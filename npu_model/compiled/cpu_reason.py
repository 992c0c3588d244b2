"""CpuReason: why a compiler leaves an operator to the CPU."""

from __future__ import annotations

from msgspec import Struct


class CpuReason(Struct, frozen=True):
    """A reason why a compiler leaves an operator to the CPU: the ``value`` that it found, and its ``bound`` ("" if none is named)."""

    value: str
    bound: str = ""
