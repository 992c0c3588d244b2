"""Vela's own allocation of tensors, from its debug database, and kernels that reach outside of it.

The C++ core says where in the arena each tensor lies and from when to when, and when each kernel runs. A kernel may touch one
tensor that is alive: what reaches further reads, or overwrites, another tensor's bytes. The Python core says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from cascader.frontends.vela.debug_database import Tables, kernel_rows
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import ByteRange, KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import ARENA
from npu_model.shapes import round_up
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bytes ``start`` to ``end`` of the arena that are a tensor's from time ``first`` to ``last`` (both included, in Vela's steps)."""

    tensor: str
    start: int
    end: int
    first: int
    last: int

    def holds(self, span: ByteRange, time: int) -> bool:
        """Whether all of ``span`` is the tensor's at ``time``."""
        return self.start <= span.start and span.end <= round_up(self.end, ALIGNMENT) and self.first <= time <= self.last


@dataclass(frozen=True, slots=True)
class StrayAccess:
    """An access of a kernel to bytes that are of no one tensor: ``operand`` is IFM, IFM2 or OFM.

    ``tensor`` is the allocation in which it begins, None if it begins in none.
    """

    operation: int
    layer: str
    mnemonic: str
    operand: str
    span: ByteRange
    tensor: Allocation | None


def _allocation(row: dict[str, str]) -> Allocation | None:
    """A row of the ``tensors`` table; None for a tensor without an address."""
    try:
        start, end = int(row["start_address"], 16), int(row["end_address"], 16)
        return Allocation(row.get("name", ""), start, end, int(row["start_time"]), int(row["end_time"]))
    except (KeyError, ValueError, TypeError):
        return None


def allocations(tables: Tables) -> tuple[Allocation, ...]:
    """The tensors that have an address; none if the database has no such table."""
    found = (_allocation(row) for row in tables.get("tensors", ()))
    return tuple(allocation for allocation in found if allocation is not None)


def _operands(op: KernelOperation) -> Iterator[tuple[str, ByteRange]]:
    for operand, fm in (("IFM", op.ifm), ("IFM2", op.ifm2), ("OFM", op.ofm)):
        if fm is not None and fm.region == ARENA:
            yield from ((operand, span) for span in fm.byte_ranges())


def stray_accesses(network: CompiledNetwork, tables: Tables) -> Iterator[StrayAccess]:
    """The accesses to the arena that lie in no tensor which is alive, in order; kernels of which Vela gives no time are passed over."""
    placed = allocations(tables)
    times = {row.get("id", ""): row.get("time_index", "") for row in tables.get("perf_debug", ())}
    for program, rows in zip(network.programs, kernel_rows(tables), strict=False):
        for (index, offset), op in zip(program.kernel_offsets.items(), program.kernels, strict=True):
            known = times.get(rows[offset].get("scheduled_id", ""), "") if offset in rows else ""
            if not known.isdecimal():
                continue
            time = int(known)
            for operand, span in _operands(op):
                if not any(tensor.holds(span, time) for tensor in placed):
                    begins = next((t for t in placed if t.start <= span.start < t.end and t.first <= time <= t.last), None)
                    yield StrayAccess(index, program.name(index), op.mnemonic, operand, span, begins)
