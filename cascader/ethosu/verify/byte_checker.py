"""The byte checker: it runs the jobs of a schedule in order on a map of the owner of every byte of the arena.

A byte belongs to a tensor and a turn: how often the tensor's rolling buffer has wrapped, 0 in a whole one. A job finds its input rows or
does not, and takes the bytes that it writes. So lifetimes, rolling buffers and overlapping addresses need no rules of their own. No code is
shared with the search or the allocator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby

import numpy as np

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import CpuPart, EthosuPart, Port
from cascader.ethosu.verify.byte_owners import ByteAccess, ByteOwners
from cascader.ethosu.verify.windows import (
    Rows,
    Span,
    copied_bytes,
    element_offsets,
    reads_own_place,
    row_step,
    rows_of,
    rows_read,
    spans,
    tensor_operands,
)
from cascader.graph.cascader_graph import TensorKind
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.errors import InputError
from npu_model.program import FeatureMap, KernelOperation

MAX_BYTES = 1 << 29
"""The most bytes that the byte checker tracks: 512 MiB, above any memory of an Ethos-U55 system."""


class _ByteCheck:
    """One schedule's run: its arena, and the copies that have been issued."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.graph = schedule.network.graph
        self.buffers = {name: buffer for buffer in schedule.buffers for name in buffer.tensors}
        self.parts = {part.name: part for part in self.graph.parts}
        self.staged: dict[str, tuple[int, Copy]] = {}
        self.copied: dict[str, int] = {}
        ends = [buffer.address + buffer.size for buffer in schedule.buffers]
        ends += [copy.address + self._copied(copy) for copy in schedule.copies]
        if max(ends, default=0) > MAX_BYTES:
            raise InputError(f"The arena is used up to byte {max(ends)}: {MAX_BYTES} is the most that is checked; use fewer.")
        self.arena = ByteOwners(self._settle_homes(max(ends, default=0)))
        self.uses: dict[str, tuple[int, int]] = {}

    def _settle_homes(self, end: int) -> int:
        """Give the tensors outside the arena buffers after its ``end``, region after region, and return the end of the last one."""
        bases: dict[int, int] = {}
        for home in sorted(self.schedule.network.homes, key=lambda home: home.region):
            size = self.graph.tensor(home.tensor).size
            base = bases.setdefault(home.region, end)
            self.buffers[home.tensor] = Buffer((home.tensor,), base + home.address, size, 0, max(len(self.schedule.jobs), 1))
            end = max(end, base + home.address + size)
            if end > MAX_BYTES:
                raise InputError(f"Arena and homes take {end} bytes: {MAX_BYTES} is the most that is checked; use fewer.")
        return end

    def _copied(self, copy: Copy) -> int:
        found = self.copied.get(copy.part)
        if found is None:
            payload = self.parts[copy.part].payload
            found = self.copied[copy.part] = copied_bytes(payload.operation) if isinstance(payload, EthosuPart) else 0
        return found

    # What is touched.

    def _inside(self, buffer: Buffer, access: ByteAccess, who: str) -> ByteAccess:
        if access.span.start < buffer.address or access.span.end > buffer.address + buffer.size:
            raise InputError(
                f"{who} uses bytes {access.span.start} to {access.span.end} for tensor {access.tensor!r} but its buffer has "
                f"{buffer.address} to {buffer.address + buffer.size}: enlarge the buffer."
            )
        return access

    def _port(self, port: Port, who: str) -> ByteAccess:
        buffer = self.buffers[port.tensor]
        if buffer.rows is not None:
            raise InputError(f"{who} needs all of tensor {port.tensor!r} but its buffer holds {buffer.rows} rows: give it a whole buffer.")
        return self._inside(buffer, ByteAccess(port.tensor, 0, Span.run(buffer.address + port.offset, port.size)), who)

    def _map(self, tensor: str, feature_map: FeatureMap, rows: Rows, who: str, axis: Axis) -> Iterator[ByteAccess]:
        """The accesses of some rows (along the axis) of a feature map, one or two per tile."""
        buffer = self.buffers[tensor]
        if rows[0] >= rows[1]:
            raise InputError(
                f"{who} uses rows {rows[0]} to {rows[1]} of tensor {tensor!r}: at least one is needed; make more rows at once."
            )
        if buffer.rows is None:
            for span in spans(feature_map, rows, buffer.address, axis):
                yield self._inside(buffer, ByteAccess(tensor, 0, span), who)
            return
        yield from self._rolling(tensor, feature_map, rows, who, axis)

    def _rolling(self, tensor: str, feature_map: FeatureMap, rows: Rows, who: str, axis: Axis) -> Iterator[ByteAccess]:
        """The accesses of some rows of a feature map in a rolling buffer: byte b of the tensor lies at b modulo the buffer's bytes."""
        buffer, step = self.buffers[tensor], row_step(feature_map, axis)
        if feature_map.tiles.height0 < feature_map.shape.height or feature_map.tiles.width0 < feature_map.shape.width:
            raise InputError(
                f"{who} uses tensor {tensor!r} in {buffer.rows} rolling rows by several tiles: give the tensor a whole buffer."
            )
        if rows[1] - rows[0] > 1 and (rows[1] - rows[0]) * step > buffer.size:
            raise InputError(
                f"{who} uses rows {rows[0]} to {rows[1]} of tensor {tensor!r} but its rolling buffer at address {buffer.address} holds "
                f"{buffer.size // max(step, 1)}: give it {rows[1] - rows[0]}."
            )

        def turn_of(row: int) -> int:
            return (feature_map.tiles.bases[0] + (row * step if row else 0)) // buffer.size

        for turn, some in _turns(rows, turn_of):
            for span in spans(feature_map, some, buffer.address - turn * buffer.size, axis):
                yield self._inside(buffer, ByteAccess(tensor, turn, span), who)

    # The run.

    def _require(self, access: ByteAccess, who: str, remedy: str, version: int = 0) -> None:
        fault = self.arena.missing(access, version)
        if fault is not None:
            row, address, what = fault
            place = f"row {row} of " if access.turn is not None else ""
            raise InputError(f"{who} needs {place}{access.name} at address {address}, where {what}: {remedy}.")

    def _use(self, tensor: str, step: int) -> None:
        first, last = self.uses.get(tensor, (step, step))
        self.uses[tensor] = min(first, step), max(last, step)

    def start(self) -> None:
        """Fill inputs and variables."""
        network = self.schedule.network
        filled = [self._port(port, f"Input {port.name!r}") for port in network.inputs]
        for tensor in self.graph.select(TensorKind.INPUT, TensorKind.VARIABLE):
            buffer = self.buffers[tensor.name]
            if buffer.rows is not None or buffer.size < tensor.size:
                raise InputError(
                    f"Tensor {tensor.name!r} is there from the start with {tensor.size} bytes but its buffer has {buffer.size}: enlarge it."
                )
            filled.append(ByteAccess(tensor.name, 0, Span.run(buffer.address, tensor.size)))
            self._use(tensor.name, 0)
        for access in filled:
            self.arena.take(access)
        for access in filled:
            self._require(access, "Step 0", "give each input its own bytes")

    def finish(self) -> None:
        """Fetch outputs; variables must have lasted."""
        last = max(len(self.schedule.jobs) - 1, 0)
        for port in self.schedule.network.outputs:
            self._require(self._port(port, f"Output {port.name!r}"), f"Output {port.name!r}", "let it last to the end, every row made")
        for tensor in self.graph.select(TensorKind.OUTPUT, TensorKind.VARIABLE):
            self._use(tensor.name, last)
        for tensor in self.graph.select(TensorKind.VARIABLE):
            access = ByteAccess(tensor.name, 0, Span.run(self.buffers[tensor.name].address, tensor.size))
            self._require(access, "The next inference", "keep the variable to the end")

    def copy(self, number: int, copy: Copy) -> None:
        """Issue a copy of weights."""
        size = self._copied(copy)
        self.arena.take(ByteAccess(copy.part, None, Span.run(copy.address, size)), number)
        self.staged |= dict.fromkeys(copy.readers, (number, copy))

    def job(self, step: int, job: Job) -> None:
        """Run a job. The bytes that it reads must be there before and after it has written, unless it writes in place."""
        who = f"Job {step} (part {job.part!r}{'' if job.rows is None else f', rows {job.rows[0]} to {job.rows[1]}'})"
        reads, kept, writes = self._accesses(job, who)
        moved = "move what overwrites it, enlarge its rolling buffer or run the job that makes it before"
        for access in reads:
            self._require(access, who, moved)
        self._require_weights(job, who)
        for access in writes:
            self.arena.take(access)
        for access in kept:
            fault = self.arena.missing(access)
            if fault is not None:
                raise InputError(
                    f"{who} overwrites row {fault[0]} of {access.name} at address {fault[1]} while reading it: give its output other bytes."
                )
        self._require_weights(job, f"{who} overwrites its own staged weights and")
        for access in (*reads, *writes):
            self._use(access.tensor, step)

    def _require_weights(self, job: Job, who: str) -> None:
        if job.part in self.staged:
            number, copy = self.staged[job.part]
            access = ByteAccess(copy.part, None, Span.run(copy.address, self._copied(copy)))
            self._require(access, who, "keep the copy's bytes free until the part's last job", number)

    def _accesses(self, job: Job, who: str) -> tuple[list[ByteAccess], list[ByteAccess], list[ByteAccess]]:
        """The accesses of a job: its reads, the reads that must outlast its writes, and its writes."""
        payload = self.parts[job.part].payload
        if isinstance(payload, CpuPart):
            read = [self._port(port, who) for port in payload.inputs if self._in_arena(port.tensor)]
            return read, read, [self._port(port, who) for port in payload.outputs]
        if not isinstance(payload, EthosuPart):
            raise InputError(f"{who} has neither a kernel nor a CPU operator: give it one.")
        operation = payload.operation
        target = self.buffers[payload.ofm]
        made = job.rows or (0, rows_of(operation.ofm, payload.axis))
        writes = list(self._map(payload.ofm, operation.ofm, made, who, payload.axis))
        reads, kept = [], []
        for tensor, operand in tensor_operands(payload):
            try:
                rows = rows_read(operation, operand, job.rows, payload.axis)
            except InputError as error:
                raise InputError(f"{who}: {error}.") from None
            found = list(self._map(tensor, operand, rows, who, payload.axis))
            reads += found
            source = self.buffers[tensor]
            one_buffer = (source.address, source.size, source.rows) == (target.address, target.size, target.rows)
            if not (one_buffer and _is_replaced(operation, operand)):
                kept += found
        return reads, kept, writes

    def _in_arena(self, tensor: str) -> bool:
        return self.graph.tensor(tensor).kind is not TensorKind.CONSTANT


def _turns(rows: Rows, turn_of: Callable[[int], int]) -> Iterator[tuple[int, Rows]]:
    """The turns of some rows, each with its own; no row is in an earlier turn than the one before."""
    first, last = turn_of(rows[0]), turn_of(rows[1] - 1)
    if first == last:
        yield first, rows
        return
    for turn, alike in groupby(range(*rows), turn_of):
        some = list(alike)
        yield turn, (some[0], some[-1] + 1)


@lru_cache(maxsize=1024)
def _is_replaced(operation: KernelOperation, operand: FeatureMap) -> bool:
    """Whether each element of an operand lies where its tensor's buffer would hold the result of that element, after reading it."""
    ofm = operation.ofm
    alike = operand.shape == ofm.shape and operand.dtype.bytes == ofm.dtype.bytes
    return alike and reads_own_place(operation) and np.array_equal(element_offsets(operand), element_offsets(ofm))


def check_bytes(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """First and last step at which every tensor is used; InputError, naming job, row and address, at the first fault.

    The schedule's parts, jobs and buffers must exist and be in order (:mod:`cascader.ethosu.verify.check` sees to it). Faults:

    - a row is read that its bytes do not hold: it was not made, was overwritten, or has rolled over;
    - a job overwrites what it reads, or staged weights are overwritten;
    - an input or output is not whole, or a buffer is too small.
    """
    run = _ByteCheck(schedule)
    run.start()
    copies = iter(enumerate(schedule.copies))
    pending = next(copies, None)
    for step, job in enumerate(schedule.jobs):
        while pending is not None and pending[1].step == step:
            run.copy(*pending)
            pending = next(copies, None)
        run.job(step, job)
    run.finish()
    return run.uses
