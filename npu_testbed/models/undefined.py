"""Outputs that an operator leaves undefined in part: the entries after the number of valid entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.program import Binding
from npu_model.tflite.model import TfliteModel

Array = NDArray[Any]

_COUNTED = {"TFLite_Detection_PostProcess": ((0, 1, 2), 3)}
"""Outputs of which an operator writes only the first entries along axis 1, and the output that counts the entries.

Source: LiteRT's kernel ``detection_postprocess.cc``, which writes boxes, classes and scores only for valid detections.
"""


def counted_outputs(model: TfliteModel) -> dict[str, str]:
    """Names of the model's partly defined outputs, each with the output that counts its entries."""
    found: dict[str, str] = {}
    for operator in model.operators:
        outputs, count = _COUNTED.get(operator.custom_code, ((), 0))
        if len(operator.outputs) > count and operator.outputs[count] in model.outputs:
            named = [operator.outputs[place] for place in outputs if operator.outputs[place] in model.outputs]
            found |= {model.tensors[index].name: model.tensors[operator.outputs[count]].name for index in named}
    return found


def defined_part(ours: Array, theirs: Array, count: Array | None) -> tuple[Array, Array]:
    """The parts of two outputs that the number ``count`` defines; all if there is no number, or if the shapes differ."""
    if count is None or ours.shape != theirs.shape or ours.ndim < 2 or count.size != 1:
        return ours, theirs
    number = float(np.asarray(count, np.float64).reshape(-1)[0])
    valid = int(number) if 0 <= number <= ours.shape[1] else ours.shape[1]
    return ours[:, :valid], theirs[:, :valid]


def entries(outputs: Mapping[str, Array], counts: Mapping[str, str]) -> int:
    """The number of entries that an inference defines, over all counted outputs."""
    numbers = (np.asarray(outputs[count], np.float64).reshape(-1) for count in counts.values() if count in outputs)
    return sum(int(number[0]) for number in numbers if number.size == 1 and np.isfinite(number[0]))


_PARTS = (2, 4, 16)
"""Divisors of the range of noise: visible objects are often faint."""


def other_inputs(inputs: tuple[Binding, ...], seed: int) -> Iterator[dict[str, Array]]:
    """Yield inputs by which a network may detect something that plain noise does not show: constant images, and fainter noise."""
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield {one.name: _scaled(one, np.full(one.shape, part)) for one in inputs}
    for divisor in _PARTS:
        random = np.random.default_rng([seed, divisor])
        yield {one.name: _scaled(one, 0.5 + (random.random(one.shape) - 0.5) / divisor) for one in inputs}


def _scaled(binding: Binding, parts: Array) -> Array:
    """Values of an input by parts of its range from 0 to 1; floats from -1 to 1."""
    kind = binding.dtype
    if kind.floating:
        return np.asarray(2 * parts - 1).astype(f"f{kind.bytes}")
    low, high = kind.minimum, kind.maximum
    return np.asarray(np.clip(np.rint(low + parts * (high - low)), low, high)).astype(str(kind))
