"""Whether an operation overwrites inputs that it has not read yet: the functional run reads everything first, but the NPU does not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import Broadcast, FeatureMap, Kernel, KernelOperation, OperationKind, Padding, Reverse, Transpose, Upscale
from sim.functional.boxes import boxes


def _marked(fm: FeatureMap, start: int, length: int) -> NDArray[np.uint8]:
    """One byte per address from ``start``: 1 where the feature map has an element."""
    marks = np.zeros(length, np.uint8)
    for box in boxes(fm):
        np.ndarray((*box.shape, fm.dtype.bytes), np.uint8, marks.data, box.start - start, (*box.strides, 1))[...] = 1
    return marks


def _share_an_element(first: FeatureMap, second: FeatureMap) -> bool:
    spans = [box for fm in (first, second) for box in boxes(fm)]
    start, end = min(box.lowest for box in spans), max(box.end for box in spans)
    return bool((_marked(first, start, end - start) & _marked(second, start, end - start)).any())


def _reads_in_step(op: KernelOperation, fm: FeatureMap) -> bool:
    """Whether each element of ``fm`` is read only for the OFM element at the same address."""
    if op.modes.transpose is not Transpose.HWC or op.modes.reverse is not Reverse.NONE:
        return False
    if op.kind is OperationKind.ELEMENTWISE:
        in_step = (fm is op.ifm and not any(op.modes.ifm_broadcast)) or op.broadcast in (Broadcast(), Broadcast(swap=True))
    else:
        in_step = op.kind is OperationKind.POOL and op.kernel == Kernel() and op.padding == Padding() and op.upscale is Upscale.NONE
    return in_step and fm.same_places(op.ofm)


def require_no_hazard(op: KernelOperation, user: str) -> None:
    """InputError if the OFM overwrites an element of an IFM that the NPU may still have to read.

    The NPU writes OFM blocks while it reads later IFM blocks. Safe are elementwise operations and 1x1 pooling in place.
    """
    written = op.writes()
    for fm in (op.ifm, op.ifm2):
        if fm is None or not any(read.overlaps(write) for read in fm.byte_ranges() for write in written):
            continue
        if not _reads_in_step(op, fm) and _share_an_element(fm, op.stored):
            raise InputError(f"{user} overwrites elements of its own input before it has read them all: give its output another address.")
