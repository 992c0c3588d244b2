"""A Schedule as a TensorIR module: one function per kernel, called job by job on storage of exactly the schedule's bytes.

Two functions of the module run the whole schedule. ``arena`` works in one arena of exactly ``arena_size`` bytes, which it is
given, at the schedule's addresses. ``buffers`` allocates every buffer apart, of exactly its size, in scope ``global.sram``, and
fills it with a pattern when its life begins, so that nothing rests on what a buffer held before. In both a rolling buffer
holds its rows alone, row y at slot y modulo the rows, and staged weights are copied where the schedule says; before a job
uses them they are compared with the constants, as the kernels themselves read decoded weights.

For use as C there is ``run_schedule``: the run in an arena alone, without copies of weights and without counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import CpuPart, Port
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.schedule.staging import weight_ranges
from cascader.plan.jobs import Job
from cascader.tensorir.compat import SRAM, load
from cascader.tensorir.kernels import SCRATCH, Operand
from cascader.tensorir.planned_macs import planned_macs
from cascader.tensorir.schedule_functions import ACCUMULATORS, Address, Pointers, ScheduleFunctions, copy_name
from cascader.tensorir.writer import Writer
from npu_model.compiled.network import COPIES
from npu_model.errors import InputError
from npu_model.values import dataclass

ARENA_FUNCTION, BUFFERS_FUNCTION, C_FUNCTION = "arena", "buffers", "run_schedule"
"""Names of the functions that run a schedule."""

_PATTERN = 0xA5
"""Byte that a buffer is filled with at first: any value but zero, which would hide mistakes."""

_MAX_ARENA = 1 << 31
"""TensorIR's offsets here are 32 bits wide and signed."""

_COUNTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class ScheduleModule:
    """A schedule's TensorIR: the module, what it is called with, and what the schedule claims of it.

    ``claims`` are the bytes of every buffer that ``buffers`` allocates, by its name there; ``macs`` are the planned
    multiply-accumulates by part, in the order of the counters that the functions add to (the last one counts stale bytes).
    """

    module: Any
    arena_size: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: NDArray[np.uint8]
    pool: NDArray[np.uint8]
    claims: dict[str, int]
    macs: dict[str, int]


def _check(schedule: Schedule) -> None:
    if schedule.arena_size >= _MAX_ARENA:
        raise InputError(f"The arena has {schedule.arena_size} bytes: below {_MAX_ARENA} is expressed in TensorIR; cascade the network.")
    for part in schedule.network.graph.parts:
        payload = part.payload
        if not isinstance(payload, CpuPart):
            continue
        if payload.code not in COPIES or len(payload.inputs) != 1 or len(payload.outputs) != 1:
            raise InputError(
                f"The network runs {payload.code} on the CPU, which is not expressed in TensorIR: only {', '.join(COPIES)} are; "
                "change the network so that Vela places it on the NPU."
            )


@dataclass(slots=True)
class _Run:
    """The statements of one run: inputs in, the jobs with their copies, outputs out."""

    owner: ScheduleFunctions
    writer: Writer
    address: Address
    buffers: dict[str, tuple[Any, int]]
    """Buffers to fill when their life begins, with their sizes; none for a run in an arena."""
    pointers: Pointers

    def write(self) -> None:
        """All of it."""
        network, births = self.owner.network, self.owner.births()
        self._fill(births.pop(0, []))
        offset = 0
        for port in network.inputs:
            self._copy(self.address(self.writer, port.tensor, port.offset), self.writer.offset(self.pointers.inputs, offset), port.size)
            offset += port.size
        staged: dict[str, int] = {}
        for step, job in enumerate(self.owner.schedule.jobs):
            self._fill(births.get(step, []))
            for index, copy in self.owner.copies.get(step, ()):
                for target, source, count in self._weights(copy.part, index):
                    self._copy(target, source, count)
                staged |= dict.fromkeys(copy.readers, index)
            if job.part in staged:
                self._compare(job.part, staged[job.part])
            self._job(job)
        offset = 0
        for port in network.outputs:
            self._copy(self.writer.offset(self.pointers.outputs, offset), self.address(self.writer, port.tensor, port.offset), port.size)
            offset += port.size

    def _fill(self, keys: list[str]) -> None:
        for buffer, size in (self.buffers[key] for key in keys if key in self.buffers):
            with self.writer.loop("i", size) as i:
                self.writer.store(buffer, i, self.writer.constant(_PATTERN, "uint8"))

    def _copy(self, target: Any, source: Any, count: int) -> None:
        self.writer.call(self.owner.copier, target, source, self.writer.constant(count, "int32"))

    def _weights(self, part: str, index: int) -> Iterator[tuple[Any, Any, int]]:
        """(where it is staged, where it comes from, bytes) of every range of the part's weights and scales."""
        offset = 0
        for span in weight_ranges(self.owner.kernel_of(part).operation):
            staged = self.address(self.writer, copy_name(index), offset)
            yield staged, self.writer.offset(self.pointers.constants, span.start), span.length
            offset += span.length

    def _compare(self, part: str, index: int) -> None:
        stale = self.writer.offset(self.pointers.counters, _COUNTER_BYTES * len(self.owner.counter))
        for found, wanted, count in self._weights(part, index):
            self.writer.call(self.owner.comparer, found, wanted, stale, self.writer.constant(count, "int32"))

    def _job(self, job: Job) -> None:
        payload = self.owner.payloads[job.part]
        if isinstance(payload, CpuPart):
            source, target = payload.inputs[0], payload.outputs[0]
            places = [self.address(self.writer, port.tensor, port.offset) for port in (target, source)]
            self._copy(places[0], places[1], target.size)
            return
        name, kernel = self.owner.kernels[job.part]
        arguments = [self._operand(operand) for operand in kernel.operands]
        if kernel.accumulator:
            arguments.append(self.pointers.scratch[kernel.accumulator])
        if kernel.counts:
            arguments.append(self.writer.offset(self.pointers.counters, _COUNTER_BYTES * self.owner.counter[job.part]))
        part = self.owner.kernel_of(job.part)
        first, last = job.rows or (0, part.axis.extent(part.operation.ofm.shape))
        self.writer.call(name, *arguments, self.writer.constant(first, "int32"), self.writer.constant(last - first, "int32"))

    def _operand(self, operand: Operand) -> Any:
        if operand.tensor is None:
            return self.writer.offset(self.pointers.pool, operand.offset)
        return self.address(self.writer, operand.tensor, operand.offset)


def _run_in_arena(owner: ScheduleFunctions) -> None:
    """Add the function that runs all jobs in an arena that it is given."""
    writer = Writer()
    base = writer.tensor("arena_bytes", "uint8", (max(1, owner.schedule.arena_size),)).data
    _Run(owner, writer, owner.in_arena(base), {}, owner.tensors(writer)).write()
    owner.add(ARENA_FUNCTION, writer.function(public=ARENA_FUNCTION))


def _run_in_buffers(owner: ScheduleFunctions) -> None:
    """Add the function that runs all jobs in buffers of its own."""
    writer = Writer()
    pointers = owner.tensors(writer)
    made = {key: (writer.allocate(name, "uint8", (size,), SRAM), size) for key, name, size in owner.claims()}
    bases = {tensor: made[owner.schedule.buffers[index].tensors[0]][0] for tensor, index in owner.buffer_of.items()}
    bases |= {key: buffer for key, (buffer, _) in made.items()}

    def address(writer: Writer, tensor: str, offset: int) -> Any:
        return writer.offset(writer.address_of(bases[tensor]), offset)

    _Run(owner, writer, address, made, pointers).write()
    owner.add(BUFFERS_FUNCTION, writer.function(public=BUFFERS_FUNCTION))


def _run_as_c(owner: ScheduleFunctions) -> None:
    """Add the function that runs all jobs in an arena, with plain pointers for parameters."""
    writer = Writer()
    base, inputs, outputs, pool = (writer.address(name) for name in ("arena_bytes", "inputs", "outputs", "pool"))
    scratch = {dtype: writer.pointer(f"scratch_{dtype}", dtype, SCRATCH).data for dtype in ACCUMULATORS}
    _Run(owner, writer, owner.in_arena(base), {}, Pointers(inputs, outputs, pool, None, None, scratch)).write()
    owner.add(C_FUNCTION, writer.function())


def _planned(owner: ScheduleFunctions) -> dict[str, int]:
    macs = dict.fromkeys(owner.counter, 0)
    for job in owner.schedule.jobs:
        if job.part in macs:
            part = owner.kernel_of(job.part)
            macs[job.part] += planned_macs(part.operation, job.rows, part.axis)
    return macs


def schedule_module(schedule: Schedule, *, as_c: bool = False) -> ScheduleModule:
    """The TensorIR of a schedule, to be compiled and measured, or (``as_c``) to be written as C.

    InputError, with the part's name, if one of its kernels cannot be expressed.
    """
    _check(schedule)
    owner = ScheduleFunctions(schedule, counting=not as_c)
    if as_c:
        _run_as_c(owner)
    else:
        _run_in_arena(owner)
        _run_in_buffers(owner)
    return ScheduleModule(
        module=load().tvm.ir.IRModule(owner.functions),
        arena_size=schedule.arena_size,
        inputs=schedule.network.inputs,
        outputs=schedule.network.outputs,
        constants=np.array(np.frombuffer(schedule.network.constants or b"\0", np.uint8)),
        pool=owner.pool.content(),
        claims={name: size for _, name, size in owner.claims()},
        macs=_planned(owner),
    )
