"""A Schedule as a TensorIR module: one function per kernel, called job by job on storage of exactly the schedule's bytes.

Two functions of the module run the whole schedule. ``arena`` works in an arena of exactly ``arena_size`` bytes from its caller, at the
schedule's addresses. ``buffers`` allocates every buffer separately in scope ``global.sram``, with exactly its size. It fills each buffer
with a pattern when its life begins, so that no result depends on older bytes. In both, a rolling buffer holds only its rows, row y at slot
y modulo the rows. Staged weights are copied where the schedule says. Before a job uses them they are compared with the constants, because
the kernels themselves read decoded weights.

``run_schedule`` is for use as C: the run in an arena, without copies of weights and without counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes, weight_ranges
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import CpuPart, EthosuPart, Port
from cascader.plan.jobs import Job
from cascader.tensorir.compat import SRAM, load
from cascader.tensorir.kernel_body import StoredBuffer
from cascader.tensorir.kernel_constants import ConstantPool
from cascader.tensorir.kernels import SCRATCH, KernelNest, KernelWriter, NestOperand
from cascader.tensorir.one_arena import in_one_arena
from cascader.tensorir.writer import Writer
from npu_model.accelerator import accelerator
from npu_model.compiled.network import COPIES
from npu_model.errors import InputError
from npu_model.program import KernelOperation, OperationKind, PoolKind, Upscale

ARENA_FUNCTION, BUFFERS_FUNCTION, C_FUNCTION = "arena", "buffers", "run_schedule"
"""Names of the functions that run a schedule."""

_ACCUMULATORS = ("int32", "int64")
"""Types of the kernels' accumulators."""

_PATTERN = 0xA5
"""The byte that fills a new buffer. It is not zero, because zero would hide mistakes."""

_MAX_ARENA = 1 << 31
"""The largest offset here: TensorIR's offsets are 32 bits wide and signed."""

_COUNTER_BYTES = 8


class ScheduleModule(Struct, frozen=True):
    """A schedule's TensorIR: the module, its arguments, and the schedule's claims on it.

    ``claims`` holds the bytes of every buffer that ``buffers`` allocates, by its name there. ``macs`` holds the planned
    multiply-accumulates by part, in the order of the functions' counters. The last counter counts stale bytes.
    """

    module: Any
    arena_size: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: NDArray[np.uint8]
    pool: NDArray[np.uint8]
    claims: dict[str, int]
    macs: dict[str, int]


def schedule_module(schedule: Schedule, *, as_c: bool = False) -> ScheduleModule:
    """The TensorIR of a schedule, for compilation and measurement, or (``as_c``) for C code.

    Tensors outside its arena are moved to bytes after the arena, because TensorIR has one memory for all tensors. InputError names the part
    if one of its kernels cannot be expressed.
    """
    schedule = in_one_arena(schedule)
    _check(schedule)
    owner = _Functions(schedule, counting=not as_c)
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
        claims={held.name: held.size for held in owner.held},
        macs=owner.planned(),
    )


def _check(schedule: Schedule) -> None:
    if schedule.arena_size >= _MAX_ARENA:
        raise InputError(f"The arena has {schedule.arena_size} bytes: below {_MAX_ARENA} is expressed in TensorIR; cascade the network.")
    for part in schedule.network.graph.parts:
        payload = part.payload
        if isinstance(payload, CpuPart) and (payload.code not in COPIES or len(payload.inputs) != 1 or len(payload.outputs) != 1):
            raise InputError(
                f"The network runs {payload.code} on the CPU, which is not expressed in TensorIR: only {', '.join(COPIES)} are; "
                "change the network so that Vela places it on the NPU."
            )


class _Held(Struct, frozen=True):
    """Bytes of the arena that hold ``tensors`` from the step ``begins`` on. ``name`` names the buffer in the run with separate buffers."""

    tensors: tuple[str, ...]
    name: str
    address: int
    size: int
    begins: int


def _copy_name(index: int) -> str:
    """The name for a copy of weights among the tensors. It begins with a zero byte, which no name in a .tflite file does."""
    return f"\0copy {index}"


class _Functions:
    """A schedule's functions under construction: kernels, copies, comparisons, and the runs that call them."""

    def __init__(self, schedule: Schedule, *, counting: bool) -> None:
        self.schedule = schedule
        self.pool = ConstantPool()
        self.functions: dict[Any, Any] = {}
        self.payloads = {part.name: part.payload for part in schedule.network.graph.parts}
        storages = {tensor: StoredBuffer(buffer.size, buffer.rows) for buffer in schedule.buffers for tensor in buffer.tensors}
        writer = KernelWriter(accelerator(schedule.accelerator), schedule.network.constants, self.pool, counting=counting)
        self.kernels: dict[str, tuple[Any, KernelNest]] = {}
        for index, (name, payload) in enumerate(self.payloads.items()):
            if isinstance(payload, EthosuPart):
                kernel = writer.kernel(name, payload, storages)
                self.kernels[name] = (self.add(f"kernel_{index}", kernel.function), kernel)
        self.counter = {name: index for index, name in enumerate(self.kernels)}
        self.copier = self.add("copy_bytes", _copier())
        self.comparer = self.add("compare_bytes", _comparer()) if counting else None
        self.held = [*self._buffers(), *self._copies()]

    def _buffers(self) -> Iterator[_Held]:
        for index, buffer in enumerate(self.schedule.buffers):
            yield _Held(buffer.tensors, f"buffer_{index}", buffer.address, buffer.size, buffer.start)

    def _copies(self) -> Iterator[_Held]:
        for index, copy in enumerate(self.schedule.copies):
            size = staged_bytes(self.kernel_of(copy.part).operation)
            yield _Held((_copy_name(index),), f"copy_{index}", copy.address, size, copy.step)

    def add(self, name: str, function: Any) -> Any:
        """The module's name for a function; other functions call it by this name."""
        variable = load().tvm.ir.GlobalVar(name)
        self.functions[variable] = function
        return variable

    def kernel_of(self, part: str) -> EthosuPart:
        """The payload of a part, which must be a kernel."""
        payload = self.payloads[part]
        if not isinstance(payload, EthosuPart):
            raise InputError(f"Part {part!r} has no weights to copy: make the schedule anew.")
        return payload

    def in_arena(self, base: Any) -> dict[str, tuple[Any, int]]:
        """The storage of all tensors in the arena that begins at ``base``."""
        return {tensor: (base, held.address) for held in self.held for tensor in held.tensors}

    def planned(self) -> dict[str, int]:
        """The multiply-accumulates of the jobs by part."""
        macs = dict.fromkeys(self.counter, 0)
        for job in self.schedule.jobs:
            if job.part in macs:
                part = self.kernel_of(job.part)
                macs[job.part] += _planned_macs(part.operation, job.rows, part.axis)
        return macs


def _copier() -> Any:
    """The function that copies ``count`` bytes."""
    writer = Writer()
    target, source = writer.pointer("target", "uint8", 1), writer.pointer("source", "uint8", 1)
    with writer.loop("i", writer.integer("count")) as i:
        writer.store(target, i, source[i])
    return writer.function()


def _comparer() -> Any:
    """The function that compares ``count`` bytes and adds the number of different ones to ``stale``."""
    writer = Writer()
    found, wanted = writer.pointer("found", "uint8", 1), writer.pointer("wanted", "uint8", 1)
    stale = writer.pointer("stale", "int64", 1)
    with writer.loop("i", writer.integer("count")) as i:
        writer.store(stale, 0, stale[0] + writer.cast("int64", found[i] != wanted[i]))
    return writer.function()


class _Pointers(Struct, frozen=True):
    """Arguments of a run: the network's inputs and outputs, constants, counters (None: nothing is counted) and accumulators."""

    inputs: Any
    outputs: Any
    pool: Any
    constants: Any
    counters: Any
    scratch: dict[str, Any]


def _tensors(owner: _Functions, writer: Writer) -> _Pointers:
    """The parameters of a function for outside callers, and its accumulators."""
    network = owner.schedule.network
    sizes = [sum(port.size for port in network.inputs), sum(port.size for port in network.outputs)]
    sizes += [len(owner.pool.content()), len(network.constants)]
    names = ("inputs", "outputs", "pool", "constants")
    given = (writer.tensor(name, "uint8", (max(1, size),)).data for name, size in zip(names, sizes, strict=True))
    inputs, outputs, pool, constants = given
    counters = writer.tensor("counters", "int64", (len(owner.counter) + 1,)).data
    scratch = {dtype: writer.allocate(f"scratch_{dtype}", dtype, (SCRATCH,), "local").data for dtype in _ACCUMULATORS}
    return _Pointers(inputs, outputs, pool, constants, counters, scratch)


def _run_in_arena(owner: _Functions) -> None:
    """Add the function that runs all jobs in its caller's arena."""
    writer = Writer()
    base = writer.tensor("arena_bytes", "uint8", (max(1, owner.schedule.arena_size),)).data
    _Run(owner, writer, owner.in_arena(base), {}, _tensors(owner, writer)).write()
    owner.add(ARENA_FUNCTION, writer.function(public=ARENA_FUNCTION))


def _run_in_buffers(owner: _Functions) -> None:
    """Add the function that runs all jobs in buffers of its own."""
    writer = Writer()
    pointers = _tensors(owner, writer)
    made = {held: writer.allocate(held.name, "uint8", (held.size,), SRAM) for held in owner.held}
    places = {tensor: (writer.address_of(buffer), 0) for held, buffer in made.items() for tensor in held.tensors}
    _Run(owner, writer, places, made, pointers).write()
    owner.add(BUFFERS_FUNCTION, writer.function(public=BUFFERS_FUNCTION))


def _run_as_c(owner: _Functions) -> None:
    """Add the function that runs all jobs in an arena, with plain pointers as parameters."""
    writer = Writer()
    base, inputs, outputs, pool = (writer.address(name) for name in ("arena_bytes", "inputs", "outputs", "pool"))
    scratch = {dtype: writer.pointer(f"scratch_{dtype}", dtype, SCRATCH).data for dtype in _ACCUMULATORS}
    _Run(owner, writer, owner.in_arena(base), {}, _Pointers(inputs, outputs, pool, None, None, scratch)).write()
    owner.add(C_FUNCTION, writer.function())


@dataclass(slots=True)
class _Run:
    """The statements of one run: inputs in, the jobs with their copies, outputs out.

    ``places`` holds an address and a number of bytes for each tensor, and for staged weights under the name of :func:`_copy_name`.
    ``buffers`` are filled when their life begins; a run in an arena has none.
    """

    owner: _Functions
    writer: Writer
    places: dict[str, tuple[Any, int]]
    buffers: dict[_Held, Any]
    pointers: _Pointers

    def write(self) -> None:
        """The statements of the whole run."""
        schedule, network = self.owner.schedule, self.owner.schedule.network
        self._fill(0)
        for port, place in self._ports(network.inputs, self.pointers.inputs):
            self._copy(self._address(port.tensor, port.offset), place, port.size)
        staged: dict[str, int] = {}
        for step, job in enumerate(schedule.jobs):
            if step:
                self._fill(step)
            for index, copy in enumerate(schedule.copies):
                if copy.step == step:
                    for target, source, count in self._weights(copy.part, index):
                        self._copy(target, source, count)
                    staged |= dict.fromkeys(copy.readers, index)
            if job.part in staged:
                self._compare(job.part, staged[job.part])
            self._job(job)
        for port, place in self._ports(network.outputs, self.pointers.outputs):
            self._copy(place, self._address(port.tensor, port.offset), port.size)

    def _address(self, tensor: str, offset: int) -> Any:
        base, start = self.places[tensor]
        return self.writer.offset(base, start + offset)

    def _ports(self, ports: tuple[Port, ...], base: Any) -> Iterator[tuple[Port, Any]]:
        """The ports, each with its address. The addresses count on from ``base``."""
        offset = 0
        for port in ports:
            yield port, self.writer.offset(base, offset)
            offset += port.size

    def _fill(self, step: int) -> None:
        for held, buffer in self.buffers.items():
            if held.begins == step:
                with self.writer.loop("i", held.size) as i:
                    self.writer.store(buffer, i, self.writer.constant(_PATTERN, "uint8"))

    def _copy(self, target: Any, source: Any, count: int) -> None:
        self.writer.call(self.owner.copier, target, source, self.writer.constant(count, "int32"))

    def _weights(self, part: str, index: int) -> Iterator[tuple[Any, Any, int]]:
        """Every range of the part's weights and scales, as (staging address, source address, bytes)."""
        offset = 0
        for span in weight_ranges(self.owner.kernel_of(part).operation):
            yield self._address(_copy_name(index), offset), self.writer.offset(self.pointers.constants, span.start), span.length
            offset += span.length

    def _counter(self, number: int) -> Any:
        return self.writer.offset(self.pointers.counters, _COUNTER_BYTES * number)

    def _compare(self, part: str, index: int) -> None:
        stale = self._counter(len(self.owner.counter))
        for found, wanted, count in self._weights(part, index):
            self.writer.call(self.owner.comparer, found, wanted, stale, self.writer.constant(count, "int32"))

    def _job(self, job: Job) -> None:
        payload = self.owner.payloads[job.part]
        if isinstance(payload, CpuPart):
            source, target = payload.inputs[0], payload.outputs[0]
            places = [self._address(port.tensor, port.offset) for port in (target, source)]
            self._copy(places[0], places[1], target.size)
            return
        name, kernel = self.owner.kernels[job.part]
        arguments = [self._operand(operand) for operand in kernel.operands]
        if kernel.accumulator:
            arguments.append(self.pointers.scratch[kernel.accumulator])
        if kernel.counts:
            arguments.append(self._counter(self.owner.counter[job.part]))
        part = self.owner.kernel_of(job.part)
        first, last = job.rows or (0, part.axis.extent(part.operation.ofm.shape))
        self.writer.call(name, *arguments, self.writer.constant(first, "int32"), self.writer.constant(last - first, "int32"))

    def _operand(self, operand: NestOperand) -> Any:
        if operand.tensor is None:
            return self.writer.offset(self.pointers.pool, operand.offset)
        return self._address(operand.tensor, operand.offset)


def _planned_macs(operation: KernelOperation, rows: tuple[int, int] | None, cut: Axis) -> int:
    """Multiply-accumulates of OFM ``rows`` along ``cut`` (None: all rows), without the taps in padding; 0 for elementwise.

    They are counted from the kernel's definition alone. A pooling kernel counts one for each element of its windows.
    (:attr:`KernelOperation.macs` counts clipped taps too.)
    """
    if operation.kind is OperationKind.ELEMENTWISE:
        return 0
    kernel, padding, ifm, ofm = operation.kernel, operation.padding, operation.ifm.shape, operation.ofm.shape
    factor = 1 if operation.upscale is Upscale.NONE else 2
    taps = 1
    for axis, extent, outputs, size, stride, dilation, before, after in (
        (Axis.ROWS, ifm.height, ofm.height, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top, padding.bottom),
        (Axis.COLUMNS, ifm.width, ofm.width, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left, padding.right),
    ):
        made = np.arange(*rows) if rows is not None and axis is cut else np.arange(outputs)
        places = made[:, None] * stride + np.arange(size) * dilation - before
        inside = (places >= 0) & (places < min(extent * factor, (outputs - 1) * stride + (size - 1) * dilation + 1 - before - after))
        taps *= int(np.count_nonzero(inside & (places % 2 == 0) if operation.upscale is Upscale.ZEROS else inside))
    summed = operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM
    return taps * ofm.depth * (ifm.depth if summed else 1)
