"""Matrix products of two tensors, and accumulators that one kernel passes to the next.

The second operand has a row for each OFM channel and a channel for each of the IFM's (Vela 5.2.0 ``RewriteMatmul``). A kernel without an
output keeps its accumulators; the next one may begin with them, or with its second operand.
"""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.program import AccumulatorInput, KernelOperation
from sim.functional.memory import RegionBytes
from sim.functional.rescale import Integers


def first_accumulators(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    """The initial accumulators of a kernel, height x width x depth of the OFM."""
    shape = op.ofm.shape.height, op.ofm.shape.width, op.ofm.shape.depth
    if op.modes.accumulators is AccumulatorInput.RESET:
        return np.zeros(shape, np.int64)
    if op.modes.accumulators is AccumulatorInput.IFM2:
        if op.ifm2 is None:
            raise InputError(f"{user} begins with a second operand, which it does not have: the program is incomplete.")
        return memory.gather(op.ifm2, user).astype(np.int64) - op.ifm2.zero_point
    if memory.accumulators is None or memory.accumulators.shape != shape:
        raise InputError(f"{user} goes on with accumulators of {op.ofm.shape}: the kernel before it left others or none.")
    return memory.accumulators


def product(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    """The accumulators of a convolution whose weights are the second operand."""
    if op.ifm2 is None or op.kernel.elements != 1:
        raise InputError(f"{user} multiplies by a tensor with a window of {op.kernel.elements}: 1 x 1 is what compilers emit.")
    rows = memory.gather(op.ifm, user).astype(np.int64) - op.ifm.zero_point
    columns = memory.gather(op.ifm2, user).astype(np.int64) - op.ifm2.zero_point
    sums: Integers = rows @ columns.reshape(op.ofm.shape.depth, -1).T
    return first_accumulators(op, memory, user) + sums
