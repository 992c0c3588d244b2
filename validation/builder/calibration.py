"""Seeded weights, and the choice of scales and biases, from the statistics of a seeded input that runs through the network.

A convolution gets the effect of folded batch normalisation: each channel has a mean and a spread of its own, at any depth. So no layer's
output collapses to one value or saturates. All statistics are sums of integers or extremes, and scales keep 11 significant bits, so that a
library's rounding cannot change a network's bytes.

Weights are the same on every platform, Python and numpy. They come from ``BitGenerator.random_raw``, the one stream that numpy promises
never to change, by integer arithmetic. Distributions of floats would tie the bytes of a network to a library version.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from validation.builder.kernels import Array

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


SCALE_BITS = 11
"""Significant bits of a scale. The product of two scales (a bias scale) is then exact in the file's float32."""

_DEVIATION_TO_SIGMA = 1.25
"""Standard deviation over mean absolute deviation: sqrt(pi/2) = 1.2533 for a normal distribution."""

CALIBRATION_IMAGES = 2
"""Samples that run through a network while it is built. One is too few: a classifier after a global pool sees one value per sample."""

_ENOUGH_SAMPLES = 16
"""Below this number of values per channel, a channel's own spread is meaningless, and the layer's spread is used."""


class WeightSpread(Struct, frozen=True):
    """Wanted distribution of a layer before its activation, in real units: mean and standard deviation."""

    mean: float
    deviation: float


SPREADS = {
    "NONE": WeightSpread(0.0, 1.0),
    "RELU": WeightSpread(0.25, 1.0),
    "RELU6": WeightSpread(1.0, 1.75),
    "LOGITS": WeightSpread(0.0, 2.0),
}
"""By fused activation; LOGITS is a classifier before its softmax: wide enough that probabilities differ."""


def round_scale(value: float) -> float:
    """``value`` rounded to 11 significant bits.

    >>> round_scale(6 / 255) * 2**16
    1542.0
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, SCALE_BITS)), exponent - SCALE_BITS)


def few_samples(sums: Array) -> bool:
    """Whether ``sums`` (..., channels) has too few values per channel to speak for each of them."""
    return bool(sums.size // sums.shape[-1] < _ENOUGH_SAMPLES)


def _grid(key: str, count: int, low: int, high: int) -> Array:
    """``count`` multiples of 1/256 from ``low``/256 to ``high``/256."""
    return np.asarray(uniform(key, count, low, high) / 256, dtype=np.float64)


class Normalisation(Struct, frozen=True):
    """Normalisation of a layer: integer ``biases`` and ``weight_scales``, one per channel (or equal ones)."""

    biases: NDArray[np.int64]
    weight_scales: tuple[float, ...]


def normalise(key: str, sums: Array, input_scale: float, spread: WeightSpread, *, per_channel: bool) -> Normalisation:
    """Biases and weight scales that give the accumulator ``sums`` (..., channels) about the wanted ``spread``.

    Channels differ by seeded factors: 0.75 to 1.25 on the deviation, up to 0.5 deviations on the mean.
    """
    channels = sums.shape[-1]
    flat = sums.reshape(-1, channels)
    means = np.rint(flat.sum(axis=0) / flat.shape[0])
    deviations = np.abs(flat - means).sum(axis=0) / flat.shape[0]
    if few_samples(sums) or not per_channel:
        # Sums, not means: integers add up exactly in any order.
        # The factor undoes the loss of measuring a few values from their own mean.
        unbiased = math.sqrt(flat.shape[0] / max(flat.shape[0] - 1, 1))
        deviations = np.full(channels, np.abs(flat - means).sum() / flat.size * unbiased)
    if not deviations.any():
        # One value per channel (a single sample of a 1x1 output): its size is all that is known.
        deviations = np.full(channels, np.abs(flat).sum() / flat.size)
        means = np.zeros(channels)
    sigmas = np.maximum(deviations * _DEVIATION_TO_SIGMA, 1.0)
    gains = _grid(f"{key}/gain", channels, 192, 320) if per_channel else np.ones(channels)
    scales = tuple(round_scale(float(v)) for v in gains * spread.deviation / (sigmas * input_scale))
    offsets = _grid(f"{key}/offset", channels, -128, 128) * spread.deviation + spread.mean
    biases = np.rint(offsets / (np.array(scales) * input_scale) - means)
    return Normalisation(biases.astype(np.int64), scales)


def output_quantisation(real: Array, lowest: int, highest: int, *, symmetric: bool) -> tuple[float, int]:
    """Scale and zero point that hold the values ``real`` and zero; ``symmetric`` (16-bit) puts the zero point at 0.

    Few values do not show the extremes of more values, so the range is then doubled.
    """
    reach = 2.0 if few_samples(real) else 1.0
    low, high = min(float(real.min()) * reach, 0.0), max(float(real.max()) * reach, 0.0)
    if symmetric:
        return round_scale(max(-low, high, 1e-6) / highest), 0
    scale = round_scale(max(high - low, 1e-6) / (highest - lowest))
    return scale, min(max(round(lowest - low / scale), lowest), highest)


def quantise(real: Array, scale: float, zero_point: int, lowest: int, highest: int) -> Array:
    """``real`` as integers of that scale and zero point, saturated; still a float64 array."""
    return np.asarray(np.clip(np.rint(real / scale) + zero_point, lowest, highest), dtype=np.float64)


def calibration_input(key: str, shape: tuple[int, ...], lowest: int, highest: int) -> Array:
    """Seeded integers of ``shape``: two times the batch of a network input.

    The first half is white noise. For images (rank 4), the second half is noise of three grain sizes. It has structure at any depth, so
    that the statistics hold for more than one kind of picture.
    """
    noise = uniform(key, math.prod(shape), lowest, highest).reshape(shape).astype(np.float64)
    if len(shape) != 4:
        return noise
    white = noise[: shape[0] // 2].copy()
    for grain in (4, 16):
        small = (shape[0], -(-shape[1] // grain), -(-shape[2] // grain), shape[3])
        coarse = uniform(f"{key}/{grain}", math.prod(small), lowest, highest).reshape(small).astype(np.float64)
        noise += coarse.repeat(grain, axis=1).repeat(grain, axis=2)[:, : shape[1], : shape[2]]
    # Dividing by 2, not 3, keeps the spread of one uniform source (three add up to sqrt(3) of it).
    mixed = np.clip(np.rint(noise / 2), lowest, highest)
    mixed[: len(white)] = white
    return mixed
