"""The plan of an ExecuTorch method: the bytes of its planned buffers, and its calls, as a ``.pte`` has them.

Source: ``schema/program.fbs`` of ExecuTorch 1.5.1 (Program.execution_plan; ExecutionPlan.chains and non_const_buffer_sizes; Chain).
"""

from __future__ import annotations

import struct

from flatbuffers.table import Table  # type: ignore[import-untyped]  # the package ships no type information
from msgspec import Struct

_IDENTIFIER = b"ET"
_PLANS, _CHAINS, _BUFFERS, _CALLS = 1, 5, 8, 2
"""Numbers of the fields Program.execution_plan, ExecutionPlan.chains, ExecutionPlan.non_const_buffer_sizes and Chain.instructions."""

_MOST = 1 << 40
"""Bytes or calls above which a file is damaged."""


class MethodPlan(Struct, frozen=True):
    """The bytes that a runtime sets aside for the planned buffers of a method, and the calls of delegates and kernels that it makes."""

    planned: int
    calls: int


def _vector(table: Table, field: int) -> tuple[int, int]:
    """Position and length of a vector; (0, 0) if it is absent."""
    place = table.Offset(4 + 2 * field)
    return (table.Vector(place), table.VectorLen(place)) if place else (0, 0)


def method_plan(data: bytes) -> MethodPlan | None:
    """The plan of a file's first method; None for a file that is no ``.pte``, or whose plan cannot be read."""
    if data[4:6] != _IDENTIFIER:
        return None
    try:
        program = Table(data, struct.unpack_from("<I", data)[0])
        plan = Table(data, program.Indirect(_vector(program, _PLANS)[0]))
        at, count = _vector(plan, _BUFFERS)
        # The first buffer stands for none.
        sizes = struct.unpack_from(f"<{count}q", data, at)[1:]
        first, chains = _vector(plan, _CHAINS)
        calls = sum(_vector(Table(data, plan.Indirect(first + 4 * number)), _CALLS)[1] for number in range(min(chains, len(data))))
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, MemoryError):
        return None
    return MethodPlan(sum(sizes), calls) if 0 <= min(sizes, default=0) <= sum(sizes) < _MOST and calls < _MOST else None
