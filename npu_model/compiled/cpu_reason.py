"""CpuReason: why a compiler leaves an operator to the CPU."""

from __future__ import annotations

from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class CpuReason:
    """A reason why a compiler leaves an operator to the CPU: the ``value`` that it found, and its ``bound`` ("" if none is named)."""

    value: str
    bound: str = ""
