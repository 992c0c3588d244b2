"""Seeded integers for weights and biases: the same on every platform, Python and numpy.

Only ``BitGenerator.random_raw`` is drawn from, the one stream whose values numpy promises never to change, and all
that follows is integer arithmetic. Distributions of floats would tie the bytes of a network to a library version.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

WEIGHT_LIMIT = 127
"""Largest magnitude of a weight: TFLite's int8 weights are symmetric, -128 is not used (LiteRT quantisation specification)."""

_DENOMINATOR = 256
_DRAWS = 1 << 16


def _raw(key: str, count: int) -> NDArray[np.uint64]:
    """``count`` raw 64-bit draws of the stream that ``key`` names."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.asarray(np.random.PCG64(seed).random_raw(count), dtype=np.uint64)


@lru_cache(maxsize=16)
def _laplace_table(decay: int) -> NDArray[np.int8]:
    """Inverse distribution function: 65536 equally likely entries, P(k) proportional to (decay/256)**abs(k)."""
    values = range(-WEIGHT_LIMIT, WEIGHT_LIMIT + 1)
    masses = [decay ** abs(k) * _DENOMINATOR ** (WEIGHT_LIMIT - abs(k)) for k in values]
    total, below = sum(masses), 0
    edges = [0]
    for mass in masses:
        below += mass
        edges.append(below * _DRAWS // total)
    return np.asarray(np.repeat(np.array(values, dtype=np.int8), np.diff(np.array(edges))), dtype=np.int8)


def laplace(key: str, count: int, decay: int) -> NDArray[np.int8]:
    """``count`` discrete-Laplace integers in -127 to 127; each step away from zero is ``decay``/256 times as likely.

    Trained weights look like this: sharply peaked, with long tails. Uniform ones would not compress in the NPU's
    weight stream (encoded/original 1.00; trained networks have 0.61 to 0.95).
    """
    draws = _raw(key, -(-count // 4)).astype("<u8").view("<u2")[:count]
    return np.asarray(_laplace_table(decay)[draws], dtype=np.int8)


def uniform(key: str, count: int, low: int, high: int) -> NDArray[np.int64]:
    """``count`` integers from ``low`` to ``high``, both included; the span must stay below 2**31."""
    span = np.uint64(high - low + 1)
    scaled = ((_raw(key, count) >> np.uint64(32)) * span) >> np.uint64(32)
    return np.asarray(scaled.astype(np.int64) + low, dtype=np.int64)


def choose(key: str, options: tuple[int, ...]) -> int:
    """One of ``options``, by the stream that ``key`` names."""
    return options[int(uniform(key, 1, 0, len(options) - 1)[0])]
