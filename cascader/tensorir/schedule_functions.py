"""The functions of a schedule's module that its runs call: kernels, copies and comparisons, with what they are called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cascader.ethosu.network.network import EthosuPart
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.schedule.staging import staged_bytes
from cascader.plan.jobs import Copy
from cascader.tensorir.compat import load
from cascader.tensorir.constant_pool import ConstantPool
from cascader.tensorir.elements import Storage
from cascader.tensorir.kernels import SCRATCH, Kernel, KernelWriter
from cascader.tensorir.writer import Writer
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.values import dataclass

ACCUMULATORS = ("int32", "int64")
"""Types that kernels accumulate in."""

Address = Callable[[Writer, str, int], Any]
"""Address of a byte of a tensor or, by the name that :func:`copy_name` gives, of staged weights."""


def copy_name(index: int) -> str:
    """Name of a copy of weights among the tensors. It begins with a zero byte, as no name in a .tflite file does."""
    return f"\0copy {index}"


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


@dataclass(frozen=True, slots=True)
class Pointers:
    """Arguments of a run: the network's inputs and outputs, constants, counters (None: nothing is counted) and accumulators."""

    inputs: Any
    outputs: Any
    pool: Any
    constants: Any
    counters: Any
    scratch: dict[str, Any]


class ScheduleFunctions:
    """A schedule's functions in the making."""

    def __init__(self, schedule: Schedule, *, counting: bool) -> None:
        self.schedule = schedule
        self.network = schedule.network
        self.counting = counting
        self.pool = ConstantPool()
        self.functions: dict[Any, Any] = {}
        self.payloads = {part.name: part.payload for part in self.network.graph.parts}
        self.buffer_of = {tensor: index for index, buffer in enumerate(schedule.buffers) for tensor in buffer.tensors}
        storages = {tensor: Storage(schedule.buffers[i].size, schedule.buffers[i].rows) for tensor, i in self.buffer_of.items()}
        writer = KernelWriter(accelerator(schedule.accelerator), self.network.constants, self.pool, counting=counting)
        self.kernels: dict[str, tuple[Any, Kernel]] = {}
        for index, (name, payload) in enumerate(self.payloads.items()):
            if isinstance(payload, EthosuPart):
                kernel = writer.kernel(name, payload, storages)
                self.kernels[name] = (self.add(f"kernel_{index}", kernel.function), kernel)
        self.counter = {name: index for index, name in enumerate(self.kernels)}
        self.copier = self.add("copy_bytes", _copier())
        self.comparer = self.add("compare_bytes", _comparer()) if counting else None
        self.copies: dict[int, list[tuple[int, Copy]]] = {}
        for index, copy in enumerate(schedule.copies if counting else ()):
            self.copies.setdefault(copy.step, []).append((index, copy))

    def add(self, name: str, function: Any) -> Any:
        """The module's name for a function, by which others call it."""
        variable = load().tvm.ir.GlobalVar(name)
        self.functions[variable] = function
        return variable

    def kernel_of(self, part: str) -> EthosuPart:
        """The payload of a part that is a kernel."""
        payload = self.payloads[part]
        if not isinstance(payload, EthosuPart):
            raise InputError(f"Part {part!r} has no weights to copy: make the schedule anew.")
        return payload

    def claims(self) -> Iterator[tuple[str, str, int]]:
        """(key, name in TensorIR, bytes) of every buffer and every copy."""
        for index, buffer in enumerate(self.schedule.buffers):
            yield buffer.tensors[0], f"buffer_{index}", buffer.size
        for index, copy in enumerate(self.schedule.copies):
            yield copy_name(index), f"copy_{index}", staged_bytes(self.kernel_of(copy.part).operation)

    def births(self) -> dict[int, list[str]]:
        """Keys of the buffers and copies by the step at which their life begins."""
        found: dict[int, list[str]] = {}
        for buffer in self.schedule.buffers:
            found.setdefault(buffer.start, []).append(buffer.tensors[0])
        for index, copy in enumerate(self.schedule.copies):
            found.setdefault(copy.step, []).append(copy_name(index))
        return found

    def tensors(self, writer: Writer) -> Pointers:
        """The parameters of a function that is called from outside, and its accumulators."""
        network = self.network
        inputs, outputs = (
            writer.tensor(name, "uint8", (max(1, sum(port.size for port in ports)),)).data
            for name, ports in (("inputs", network.inputs), ("outputs", network.outputs))
        )
        pool = writer.tensor("pool", "uint8", (len(self.pool.content()),)).data
        constants = writer.tensor("constants", "uint8", (max(1, len(network.constants)),)).data
        counters = writer.tensor("counters", "int64", (len(self.counter) + 1,)).data
        scratch = {dtype: writer.allocate(f"scratch_{dtype}", dtype, (SCRATCH,), "local").data for dtype in ACCUMULATORS}
        return Pointers(inputs, outputs, pool, constants, counters, scratch)

    def in_arena(self, base: Any) -> Address:
        """Addresses in the arena that begins at ``base``."""
        starts = {tensor: self.schedule.buffers[index].address for tensor, index in self.buffer_of.items()}
        starts |= {copy_name(index): copy.address for index, copy in enumerate(self.schedule.copies)}
        return lambda writer, tensor, offset: writer.offset(base, starts[tensor] + offset)
