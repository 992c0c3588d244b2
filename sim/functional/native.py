"""The NPU's own SIGMOID and TANH: 256 values of the sigmoid, interpolated linearly.

The hardware's table is not public. This is the arithmetic of LiteRT's 16-bit LOGISTIC and TANH kernels. They scale their input by 3 *
2**12, as Vela scales the input of the NPU's functions. Vela's streams of these operators then equal the kernels for all 65,536 inputs and
all input scales that were tried (docs/exactness.md).
"""

from __future__ import annotations

import numpy as np

from npu_model.program import ActivationKind
from sim.functional.rescale import Integers

UNIT = 3 << 12
"""The number that stands for 1 at the functions' input (0x3000 in Vela 5.2.0)."""

_SIZE = 256
_STEPS_PER_UNIT = 24
"""Table entries from 0 to 1: neighbours are 512 apart at the sigmoid's input."""


def _table() -> Integers:
    """The sigmoid in units of 2**-16 at 0, 1/24, 2/24, ...

    A chord lies below the curve by up to h**2 / 8 times its curvature: entries are raised by half of that. The last one is the limit.
    """
    exact = 1 / (1 + np.exp(-np.arange(_SIZE) / _STEPS_PER_UNIT))
    curvature = exact * (1 - exact) * (2 * exact - 1)
    table = np.rint(65536 * (exact + curvature / _STEPS_PER_UNIT**2 / 16)).astype(np.int64)
    table[-1] = 65535
    return np.asarray(table)


_TABLE = _table()


def _interpolated(distance: Integers, bits: int, limit: int) -> Integers:
    """The table at ``distance`` / 2**``bits`` with ``bits`` fractional bits; ``limit`` after its end."""
    place, fraction = distance >> bits, distance & ((1 << bits) - 1)
    inside = np.minimum(place, _SIZE - 2)
    between = (_TABLE[inside] << bits) + fraction * (_TABLE[inside + 1] - _TABLE[inside])
    return np.where(place >= _SIZE - 1, limit, between)


def sigmoid(values: Integers) -> Integers:
    """The sigmoid of ``values`` / UNIT in units of 2**-15.

    >>> sigmoid(np.array([0, UNIT, -UNIT, 1 << 20])).tolist()
    [16384, 23956, 8812, 32767]
    """
    found = _interpolated(np.abs(values), 9, 0x7FFF << 10)
    return np.asarray(np.where(values >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10, np.int64)


def tanh(values: Integers) -> Integers:
    """The hyperbolic tangent of ``values`` / UNIT in units of 2**-15: 2 * sigmoid(2 * x) - 1.

    >>> tanh(np.array([0, UNIT, -UNIT, 1 << 20])).tolist()
    [0, 24956, -24956, 32767]
    """
    found = _interpolated(np.abs(values), 8, 0xFFFF << 8)
    return np.asarray(np.where(values >= 0, found - (1 << 23) + (1 << 7), (1 << 23) - found + (1 << 7) - 1) >> 8, np.int64)


FUNCTIONS = {ActivationKind.SIGMOID: sigmoid, ActivationKind.TANH: tanh}
"""By the activation that a kernel names."""
