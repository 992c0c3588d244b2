"""A Schedule as a TensorIR module: one function per kernel, called job by job on storage of exactly the schedule's bytes.

Two functions of the module run the whole schedule. ``arena`` works in one arena of exactly ``arena_size`` bytes, which it is
given, at the schedule's addresses. ``buffers`` allocates every buffer apart, of exactly its size, in scope ``global.sram``, and
fills it with a pattern when its life begins, so that nothing rests on what a buffer held before. In both a rolling buffer
holds its rows alone, row y at slot y modulo the rows, and staged weights are copied where the schedule says; before a job
uses them they are compared with the constants, as the kernels themselves read decoded weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network import CpuPart, EthosuPart, Port
from cascader.ethosu.schedule import Schedule
from cascader.ethosu.staging import staged_bytes, weight_ranges
from cascader.schedule import Copy, Job
from cascader.tensorir.compat import load
from cascader.tensorir.constant_pool import ConstantPool
from cascader.tensorir.elements import Storage
from cascader.tensorir.kernels import SCRATCH, Kernel, KernelWriter, Operand
from cascader.tensorir.planned_macs import planned_macs
from cascader.tensorir.writer import Writer
from npu_model.accelerator import accelerator
from npu_model.errors import InputError

SRAM = "global.sram"
"""Scope of what lies in the arena."""

COPIED_OPERATORS = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""CPU operators that leave the bytes as they are: the only ones that a schedule's proof runs."""

_PATTERN = 0xA5
"""What a buffer holds at first: any value but zero, which would hide mistakes."""

_MAX_ARENA = 1 << 31
"""TensorIR's offsets here are 32 bits wide and signed."""

Address = Callable[[Writer, str, int], Any]
"""Address of a byte of a tensor or, by the name that :func:`_copy_name` gives, of staged weights."""


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


def _copy_name(index: int) -> str:
    return f"copy {index}"


def _check(schedule: Schedule) -> None:
    if schedule.arena_size >= _MAX_ARENA:
        raise InputError(f"The arena has {schedule.arena_size} bytes: below {_MAX_ARENA} is expressed in TensorIR; cascade the network.")
    for part in schedule.network.graph.parts:
        payload = part.payload
        if not isinstance(payload, CpuPart):
            continue
        if payload.code not in COPIED_OPERATORS or len(payload.inputs) != 1 or len(payload.outputs) != 1:
            raise InputError(
                f"The network runs {payload.code} on the CPU, which is not expressed in TensorIR: only {', '.join(COPIED_OPERATORS)} are; "
                "change the network so that Vela places it on the NPU."
            )


def _copier() -> Any:
    """The function that copies ``count`` bytes."""
    writer = Writer()
    target, source = writer.pointer("target", "uint8", 1), writer.pointer("source", "uint8", 1)
    with writer.loop("i", writer.integer("count")) as i:
        writer.store(target, i, source[i])
    return writer.function()


def _comparer() -> Any:
    """The function that adds to ``stale`` how many of ``count`` bytes differ."""
    writer = Writer()
    found, wanted = writer.pointer("found", "uint8", 1), writer.pointer("wanted", "uint8", 1)
    stale = writer.pointer("stale", "int64", 1)
    with writer.loop("i", writer.integer("count")) as i:
        writer.store(stale, 0, stale[0] + writer.cast("int64", found[i] != wanted[i]))
    return writer.function()


class _ModuleWriter:
    """A schedule's functions in the making."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.network = schedule.network
        self.pool = ConstantPool()
        self.functions: dict[Any, Any] = {}
        self.buffer_of = {tensor: index for index, buffer in enumerate(schedule.buffers) for tensor in buffer.tensors}
        storages = {tensor: Storage(schedule.buffers[i].size, schedule.buffers[i].rows) for tensor, i in self.buffer_of.items()}
        writer = KernelWriter(accelerator(schedule.accelerator), self.network.constants, self.pool)
        self.kernels: dict[str, tuple[Any, Kernel]] = {}
        self.counter: dict[str, int] = {}
        for index, part in enumerate(self.network.graph.parts):
            if isinstance(part.payload, EthosuPart):
                self.counter[part.name] = len(self.counter)
                kernel = writer.kernel(part.name, part.payload, storages)
                self.kernels[part.name] = (self.add(f"kernel_{index}", kernel.function), kernel)
        self.copier = self.add("copy_bytes", _copier())
        self.comparer = self.add("compare_bytes", _comparer())
        self.copies: dict[int, list[tuple[int, Copy]]] = {}
        for index, copy in enumerate(schedule.copies):
            self.copies.setdefault(copy.step, []).append((index, copy))

    def add(self, name: str, function: Any) -> Any:
        """The module's name for a function, by which others call it."""
        variable = load().tvm.ir.GlobalVar(name)
        self.functions[variable] = function
        return variable

    def claims(self) -> Iterator[tuple[str, str, int]]:
        """(key, name in TensorIR, bytes) of every buffer and every copy."""
        for index, buffer in enumerate(self.schedule.buffers):
            yield buffer.tensors[0], f"buffer_{index}", buffer.size
        for index, copy in enumerate(self.schedule.copies):
            part = self.network.graph.parts[self.network.graph.index(copy.part)].payload
            yield _copy_name(index), f"copy_{index}", staged_bytes(part.operation) if isinstance(part, EthosuPart) else 0

    def run(self, name: str, *, arena: bool) -> None:
        """Add the function that runs all jobs: in an arena that it is given, or in buffers of its own."""
        writer = Writer()
        base = writer.tensor("arena_bytes", "uint8", self.schedule.arena_size).data if arena else None
        inputs, outputs = (writer.tensor(n, "uint8", sum(p.size for p in ports)) for n, ports in self._ports())
        constants = writer.tensor("constants", "uint8", len(self.network.constants))
        pool = writer.tensor("pool", "uint8", len(self.pool.content()))
        counters = writer.tensor("counters", "int64", len(self.counter) + 1)
        scratch = writer.allocate("scratch", "int64", SCRATCH, "local")
        made = {} if arena else {key: (writer.allocate(name, "uint8", size, SRAM), size) for key, name, size in self.claims()}
        address = self._in_arena(base) if arena else self._in_buffers(made)
        run = _Run(self, writer, address, made, constants.data, pool.data, counters.data, scratch.data)
        run.write(inputs.data, outputs.data)
        self.add(name, writer.function(public=name))

    def _ports(self) -> tuple[tuple[str, tuple[Port, ...]], ...]:
        return (("inputs", self.network.inputs), ("outputs", self.network.outputs))

    def _in_arena(self, base: Any) -> Address:
        starts = {tensor: self.schedule.buffers[index].address for tensor, index in self.buffer_of.items()}
        starts |= {_copy_name(index): copy.address for index, copy in enumerate(self.schedule.copies)}
        return lambda writer, tensor, offset: writer.offset(base, starts[tensor] + offset)

    def _in_buffers(self, made: dict[str, tuple[Any, int]]) -> Address:
        bases = made | {tensor: made[self.schedule.buffers[index].tensors[0]] for tensor, index in self.buffer_of.items()}
        return lambda writer, tensor, offset: writer.offset(writer.address_of(bases[tensor][0]), offset)

    def births(self) -> dict[int, list[str]]:
        """Keys of the buffers and copies by the step at which their life begins."""
        found: dict[int, list[str]] = {}
        for buffer in self.schedule.buffers:
            found.setdefault(buffer.start, []).append(buffer.tensors[0])
        for index, copy in enumerate(self.schedule.copies):
            found.setdefault(copy.step, []).append(_copy_name(index))
        return found


@dataclass(slots=True)
class _Run:
    """The statements of one run: inputs in, the jobs with their copies, outputs out."""

    owner: _ModuleWriter
    writer: Writer
    address: Address
    buffers: dict[str, tuple[Any, int]]
    """Buffers to fill when their life begins, with their sizes; none for a run in an arena."""
    constants: Any
    pool: Any
    counters: Any
    scratch: Any

    def write(self, inputs: Any, outputs: Any) -> None:
        """All of it."""
        network, births = self.owner.network, self.owner.births()
        self._fill(births.pop(0, []))
        offset = 0
        for port in network.inputs:
            self._copy(self.address(self.writer, port.tensor, port.offset), self.writer.offset(inputs, offset), port.size)
            offset += port.size
        staged: dict[str, int] = {}
        for step, job in enumerate(self.owner.schedule.jobs):
            self._fill(births.get(step, []))
            for index, copy in self.owner.copies.get(step, ()):
                self._stage(index, copy)
                staged[copy.part] = index
            self._job(job, staged.get(job.part))
        offset = 0
        for port in network.outputs:
            self._copy(self.writer.offset(outputs, offset), self.address(self.writer, port.tensor, port.offset), port.size)
            offset += port.size

    def _fill(self, keys: list[str]) -> None:
        for buffer, size in (self.buffers[key] for key in keys if key in self.buffers):
            with self.writer.loop("i", size) as i:
                self.writer.store(buffer, i, self.writer.constant(_PATTERN, "uint8"))

    def _copy(self, target: Any, source: Any, count: int) -> None:
        self.writer.call(self.owner.copier, target, source, self.writer.constant(count, "int32"))

    def _weights(self, part: str, index: int) -> Iterator[tuple[Any, Any, int]]:
        """(where it is staged, where it comes from, bytes) of every range of the part's weights and scales."""
        payload = self.owner.network.graph.parts[self.owner.network.graph.index(part)].payload
        offset = 0
        for span in weight_ranges(payload.operation) if isinstance(payload, EthosuPart) else ():
            yield self.address(self.writer, _copy_name(index), offset), self.writer.offset(self.constants, span.start), span.length
            offset += span.length

    def _stage(self, index: int, copy: Copy) -> None:
        for target, source, count in self._weights(copy.part, index):
            self._copy(target, source, count)

    def _job(self, job: Job, staged: int | None) -> None:
        payload = self.owner.network.graph.parts[self.owner.network.graph.index(job.part)].payload
        if isinstance(payload, CpuPart):
            source, target = payload.inputs[0], payload.outputs[0]
            places = [self.address(self.writer, port.tensor, port.offset) for port in (target, source)]
            self._copy(places[0], places[1], target.size)
            return
        if staged is not None:
            stale = self.writer.offset(self.counters, 8 * len(self.owner.counter))
            for found, wanted, count in self._weights(job.part, staged):
                self.writer.call(self.owner.comparer, found, wanted, stale, self.writer.constant(count, "int32"))
        name, kernel = self.owner.kernels[job.part]
        first, last = job.rows or (0, payload.operation.ofm.shape.height if isinstance(payload, EthosuPart) else 0)
        self.writer.call(
            name,
            *(self._operand(operand) for operand in kernel.operands),
            self.scratch,
            self.writer.offset(self.counters, 8 * self.owner.counter[job.part]),
            self.writer.constant(first, "int32"),
            self.writer.constant(last - first, "int32"),
        )

    def _operand(self, operand: Operand) -> Any:
        if operand.tensor:
            return self.address(self.writer, operand.tensor, operand.offset)
        return self.writer.offset(self.pool if operand.tensor is None else self.constants, operand.offset)


def _planned(schedule: Schedule, parts: Iterator[str]) -> dict[str, int]:
    macs = dict.fromkeys(parts, 0)
    for job in schedule.jobs:
        payload = schedule.network.graph.parts[schedule.network.graph.index(job.part)].payload
        if isinstance(payload, EthosuPart):
            macs[job.part] += planned_macs(payload.operation, job.rows)
    return macs


def schedule_module(schedule: Schedule) -> ScheduleModule:
    """The TensorIR of a schedule; InputError, with the part's name, if one of its kernels cannot be expressed."""
    _check(schedule)
    owner = _ModuleWriter(schedule)
    owner.run("arena", arena=True)
    owner.run("buffers", arena=False)
    return ScheduleModule(
        module=load().tvm.ir.IRModule(owner.functions),
        arena_size=schedule.arena_size,
        inputs=schedule.network.inputs,
        outputs=schedule.network.outputs,
        constants=np.frombuffer(schedule.network.constants or b"\0", np.uint8).copy(),
        pool=owner.pool.content(),
        claims={name: size for _, name, size in owner.claims()},
        macs=_planned(schedule, iter(owner.counter)),
    )
