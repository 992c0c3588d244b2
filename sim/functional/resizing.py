"""Resizing: nearest and bilinear, in steps of a fraction.

Output ``i`` of an axis lies at input ``p / n`` with ``p = i * step + offset`` and ``n`` the numerator (Vela 5.2.0
``ethos_u85_register_cs_generator.cpp``). LiteRT agrees with all bytes of the resizes that Vela emits.
"""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.program import KernelOperation, Resize, ResizeAxis, ResizeKind
from sim.functional.memory import RegionBytes
from sim.functional.rescale import Integers, rescale

_RAISED = 16
"""Left shift of a resize's accumulators, which OFM_SCALE takes back."""


def _nearest(axis: ResizeAxis, outputs: int, inputs: int) -> Integers:
    """The input nearest to each output, halves upwards."""
    places = np.arange(outputs) * axis.step + axis.offset
    return np.clip((2 * places + axis.numerator) // (2 * axis.numerator), 0, inputs - 1)


def _neighbours(axis: ResizeAxis, outputs: int, inputs: int) -> tuple[Integers, Integers, Integers]:
    """The inputs before and after each output, and the numerators from the first of them."""
    places = np.arange(outputs) * axis.step + axis.offset
    first, rest = places // axis.numerator, places % axis.numerator
    return np.clip(first, 0, inputs - 1), np.clip(first + 1, 0, inputs - 1), rest


def _bilinear(values: Integers, resize: Resize, height: int, width: int) -> Integers:
    upper, lower, down = _neighbours(resize.y, height, values.shape[0])
    left, right, across = _neighbours(resize.x, width, values.shape[1])
    down, across = down[:, None, None], across[None, :, None]
    rows = values[upper] * (resize.y.numerator - down) + values[lower] * down
    return np.asarray(rows[:, left] * (resize.x.numerator - across) + rows[:, right] * across)


def resized(op: KernelOperation, memory: RegionBytes, user: str) -> Integers:
    """The result of a RESIZE operation, height x width x depth of the OFM, before zero point and clamp."""
    resize, shape = op.modes.resize, op.ofm.shape
    if resize is None or resize.kind is ResizeKind.REPLICATE:
        raise InputError(f"{user} resizes by replication: its arithmetic is not public, and no compiler that was seen emits it.")
    values = memory.gather(op.ifm, user).astype(np.int64) - op.ifm.zero_point
    if resize.kind is ResizeKind.NEAREST:
        found = values[_nearest(resize.y, shape.height, op.ifm.shape.height)][:, _nearest(resize.x, shape.width, op.ifm.shape.width)]
    else:
        found = _bilinear(values, resize, shape.height, shape.width)
    return rescale(found << _RAISED, op.ofm_scale.scale, op.ofm_scale.shift, op.rounding)
