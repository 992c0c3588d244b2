"""Bit-exact execution of a Program: every operation in stream order, on the memories as the hardware addresses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.accelerator import Accelerator, accelerator, require_use
from npu_model.program import DmaOperation, KernelOperation, Operation, OperationKind, Program
from sim.functional.activation import FINISHES
from sim.functional.convolution import convolution
from sim.functional.elementwise import elementwise
from sim.functional.filters import FilterCache
from sim.functional.hazards import require_no_hazard
from sim.functional.memory import RegionBytes
from sim.functional.pooling import pooling
from sim.functional.regions import numpy_dtype
from sim.functional.rescale import Integers
from sim.functional.resizing import resized

OnOperation = Callable[[int, Operation, RegionBytes], None]
"""Called after each operation with its index, the operation and the current memory."""


def _compute(op: KernelOperation, memory: RegionBytes, cache: FilterCache, device: Accelerator, user: str) -> Integers:
    if op.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE):
        return convolution(op, memory, cache, device, user)
    if op.kind is OperationKind.POOL:
        return pooling(op, memory, device, user)
    if op.kind is OperationKind.RESIZE:
        return resized(op, memory, user)
    return elementwise(op, memory, user)


def _run_kernel(op: KernelOperation, memory: RegionBytes, cache: FilterCache, device: Accelerator, user: str) -> None:
    stored = op.stored
    for fm in (op.ifm, op.ifm2, stored):
        if fm is not None:
            memory.require_inside(fm, user)
    require_no_hazard(op, user)
    finish = FINISHES[device.commands]
    computed = _compute(op, memory, cache, device, user)
    if not op.modes.has_output:
        memory.accumulators = computed
        return
    values = finish(op, computed, memory, device.lut_address, user)
    memory.scatter(stored, _arranged(op, values.astype(numpy_dtype(op.ofm.dtype))), user)


def _arranged(op: KernelOperation, values: NDArray[Any]) -> NDArray[Any]:
    """The OFM in its stored form: reversed along an axis, or with its axes in another order."""
    axis = op.modes.reverse.axis
    ordered: NDArray[Any] = values if axis is None else np.flip(values, axis)
    return np.transpose(ordered, op.modes.transpose.axes)


def execute(program: Program, memory: RegionBytes, on_operation: OnOperation | None = None, filters: FilterCache | None = None) -> None:
    """Run the operations one after the other; ``memory`` holds the results.

    ``filters`` keeps decoded weights from one run to the next; without it they are kept for this run. Waits and control have no effect
    here; :mod:`sim.hazards` checks whether the waits allow an order with another result. InputError names the operation if it reads a byte
    that was never written, reaches outside its region, overwrites its own input or uses a function of the NPU whose exact arithmetic is not
    public.
    """
    require_use(program.accelerator, "run")
    device = accelerator(program.accelerator)
    cache = FilterCache() if filters is None else filters
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            _run_kernel(op, memory, cache, device, f"Operation {index} ({' '.join(filter(None, (op.mnemonic, program.name(index))))})")
        elif isinstance(op, DmaOperation):
            memory.transfer(op, f"Operation {index} (DMA)")
        if on_operation is not None:
            on_operation(index, op, memory)
