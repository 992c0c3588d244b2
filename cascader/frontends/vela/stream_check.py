"""Checks that Vela's stream keeps to the network's tensors: bounds of every access, and bytes that no kernel wrote.

Both of Vela's cores emit wrong streams for some networks. Such a stream reads another tensor's bytes or garbage, so its outputs, and any
schedule made of it, are wrong. Only a comparison with LiteRT shows wrong bytes within a tensor's bounds.

The C++ core's debug database says where each tensor lies in the arena, from when to when, and when each kernel runs. A kernel may touch one
live tensor: an access beyond it reads or overwrites another tensor's bytes. The Python core says nothing of this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from cascader.frontends.vela.debug_database import Row, Tables, by_command, named_network, read_tables, table
from cascader.frontends.vela.known_faults import known_fault
from cascader.frontends.vela.result import VelaResult
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.program import ByteRange, KernelOperation, PoolKind
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import ARENA
from npu_model.shapes import round_up
from npu_model.weight_stream.work import stream_work


class Allocation(Struct, frozen=True):
    """A tensor's bytes ``start`` to ``end`` of the arena from time ``first`` to ``last`` (both included, in Vela's steps)."""

    tensor: str
    start: int
    end: int
    first: int
    last: int

    def holds(self, span: ByteRange, time: int) -> bool:
        """Whether all of ``span`` belongs to the tensor at ``time``."""
        return self.start <= span.start and span.end <= round_up(self.end, ALIGNMENT) and self.first <= time <= self.last


def _allocation(row: Row) -> Allocation | None:
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


class _Alive:
    """The live tensors at a time. A stream may have 66,000 times, and few tensors change from one to the next."""

    def __init__(self, placed: Sequence[Allocation]) -> None:
        self._changes = sorted({time for tensor in placed for time in (tensor.first, tensor.last + 1)})
        self._tensors: list[list[Allocation]] = [
            [],
            *([tensor for tensor in placed if tensor.first <= time <= tensor.last] for time in self._changes),
        ]

    def at(self, time: int) -> list[Allocation]:
        """The tensors that are alive at ``time``, in their order."""
        return self._tensors[bisect_right(self._changes, time)]


def _operands(op: KernelOperation) -> Iterator[tuple[str, ByteRange]]:
    for operand, fm in (("IFM", op.ifm), ("IFM2", op.ifm2), ("OFM", op.ofm)):
        if fm is not None and fm.region == ARENA:
            yield from ((operand, span) for span in fm.byte_ranges())


def stray_accesses(network: CompiledNetwork, tables: Tables) -> Iterator[str]:
    """The accesses to the arena that lie in no live tensor, in order, as clauses.

    Each clause names the tensor in which the access begins. Kernels without a time from Vela are passed over.
    """
    alive = _Alive(allocations(tables))
    times = table(tables, "perf_debug").column_by("id", "time_index")
    for program, scheduled in zip(network.programs, by_command(tables, "scheduled_id"), strict=False):
        for (index, offset), op in zip(program.kernel_offsets.items(), program.kernels, strict=True):
            known = times.get(scheduled.get(offset, ""), "") if offset in scheduled else ""
            if not known.isdecimal():
                continue
            tensors = alive.at(int(known))
            for operand, span in _operands(op):
                if any(tensor.holds(span, int(known)) for tensor in tensors):
                    continue
                begins = next((tensor for tensor in tensors if tensor.start <= span.start < tensor.end), None)
                theirs = f"but its tensor {begins.tensor!r} has {begins.start} to {begins.end}" if begins else "where no tensor lies"
                where = f"layer {program.name(index)!r} ({op.mnemonic}, operation {index}) {'writes' if operand == 'OFM' else 'reads'}"
                yield f"{where} bytes {span.start} to {span.end} of the arena as its {operand}, {theirs}"


def _lost_rows(network: CompiledNetwork) -> str:
    """A sum over channels that is not one element for each position: Vela 5.2's C++ core drops rows if the axis is dropped."""
    for program in network.programs:
        for number, operation in enumerate(program.operations):
            if isinstance(operation, KernelOperation) and operation.pool is PoolKind.REDUCE_SUM:
                ifm, ofm = operation.ifm.shape, operation.ofm.shape
                if (ofm.height, ofm.width, ofm.depth) != (ifm.height, ifm.width, 1):
                    where = f"layer {program.name(number)!r} ({operation.mnemonic}, operation {number})"
                    return f"{where} sums the channels of {ifm} elements into {ofm}, not into one for each position"
    return ""


def _other_weights(network: CompiledNetwork) -> str:
    """A stream with other weights than its kernel needs.

    Vela 5.2's Python core makes such a stream for an average over 4 columns that steps over 4 columns.
    """
    try:
        for program in network.programs:
            stream_work(program, accelerator(program.accelerator))
    except InputError as error:
        clause = str(error).partition(";")[0]
        return f"{clause[:1].lower()}{clause[1:]}"
    return ""


def stream_fault(network: CompiledNetwork, database: str = "") -> str:
    """The first fault of a compilation, as a clause: a wrong access, a sum over channels of the wrong shape, or wrong weights.

    The clause names the layer or the weight stream; it is "" if nothing is wrong. ``database`` is the text of Vela's debug database.
    Without its table of tensors (the Python core has none) only reads of unwritten bytes are found.
    """
    stray = next(stray_accesses(network, read_tables(database)), None)
    if stray is not None:
        return stray
    unwritten = next(unwritten_reads(network), None)
    return (_lost_rows(network) or _other_weights(network)) if unwritten is None else unwritten.text


def checked_network(result: VelaResult, model: bytes) -> CompiledNetwork:
    """The decoded compilation of ``model``; if its stream is wrong, InputError names Vela's core, the layer and the access."""
    network = named_network(result)
    fault = known_fault(model, result.core, result.version) or stream_fault(network, result.database)
    if fault:
        raise InputError(f"Vela {result.version}'s {result.core} core emits a wrong stream: {fault}; change that part of the network.")
    return network
