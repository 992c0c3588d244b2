"""Other orders of a Program's operations that its waits allow: transfers as late as they may be, or kernels."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import DmaOperation, DmaWait, KernelOperation, KernelWait, Operation, Program

Reorder = Callable[[Program], Program]
"""The same operations in another order that the hardware may choose."""


def late_transfers(program: Program) -> Program:
    """The program with each transfer done as late as its wait, or the next transfer, allows."""
    order: list[Operation] = []
    waiting: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, (DmaOperation, DmaWait)):
            order += waiting
            waiting = [operation] if isinstance(operation, DmaOperation) else []
        else:
            order.append(operation)
    return with_operations(program, [*order, *waiting])


def late_kernels(program: Program) -> Program:
    """The program with each kernel done as late as the queue of two and the waits allow, and transfers at once."""
    order: list[Operation] = []
    queue: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, KernelOperation):
            queue.append(operation)
        keep = operation.outstanding if isinstance(operation, KernelWait) else accelerator(DEFAULT).max_outstanding_kernels
        while len(queue) > keep:
            order.append(queue.pop(0))
        if isinstance(operation, DmaOperation):
            order.append(operation)
    return with_operations(program, order + queue)


def with_operations(program: Program, found: list[Operation]) -> Program:
    return replace(program, operations=tuple(found), words=(0,) * len(found), names=())


def reordered(made: Schedule, order: Reorder) -> CompiledNetwork:
    """The lowered schedule with its Programs in another order."""
    lowered = lower(made)
    return replace(lowered, steps=tuple(order(step) if isinstance(step, Program) else step for step in lowered.steps))
