"""Outputs that an operator leaves undefined in part: the entries after the number of valid entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from npu_model.program import Binding
from npu_model.tflite.model import TfliteModel

Array = NDArray[Any]

_COUNTED = {"TFLite_Detection_PostProcess": ((0, 1, 2), 3)}
"""Outputs of which an operator writes only the first entries along axis 1, and the output that counts the entries.

Source: LiteRT's kernel ``detection_postprocess.cc``, which writes boxes, classes and scores only for valid detections.
"""


_IN_ORDER = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "QUANTIZE", "DEQUANTIZE", "CAST")
"""Operators whose results lie in the order of their operand's elements."""


class PartlyDefined(Struct, frozen=True):
    """An output with ``most`` entries, of which only some are defined. The output ``count`` says how many ("": no output says it).

    Entries that are ``mixed`` do not lie one after the other: such an output is defined only if all entries are.
    """

    count: str
    most: int
    mixed: bool = False


def counted_outputs(model: TfliteModel) -> dict[str, PartlyDefined]:
    """The model's partly defined outputs by name: those of an operator that counts entries, and those computed from them."""
    found: dict[int, PartlyDefined] = {}
    for operator in model.operators:
        outputs, count = _COUNTED.get(operator.custom_code, ((), 0))
        if outputs and len(operator.outputs) > count:
            number = operator.outputs[count]
            name = model.tensors[number].name if number in model.outputs else ""
            shapes = {place: model.tensors[operator.outputs[place]].shape for place in outputs}
            found |= {
                operator.outputs[place]: PartlyDefined(name, shape[1]) for place, shape in shapes.items() if len(shape) > 1 and shape[1] > 0
            }
        elif read := [found[number] for number in operator.inputs if number in found]:
            mixed = read[0].mixed or operator.code not in _IN_ORDER
            found |= dict.fromkeys(operator.outputs, replace(read[0], mixed=mixed))
    return {model.tensors[number].name: one for number, one in found.items() if number in model.outputs}


def defined_part(ours: Array, theirs: Array, counted: PartlyDefined | None, count: Array | None) -> tuple[Array, Array]:
    """The parts of two outputs that the number ``count`` defines, in the order of their elements.

    All is defined if the output is not ``counted``, or if the shapes differ; nothing is if no output says the number.
    """
    if counted is None or ours.shape != theirs.shape or (count is not None and count.size != 1):
        return ours, theirs
    number = 0.0 if count is None else float(np.asarray(count, np.float64).reshape(-1)[0])
    valid = int(number) if 0 <= number <= counted.most else counted.most
    size = 0 if counted.mixed and valid < counted.most else ours.size * valid // counted.most
    return ours.reshape(-1)[:size], theirs.reshape(-1)[:size]


def entries(outputs: Mapping[str, Array], counts: Mapping[str, PartlyDefined]) -> int:
    """The number of entries that an inference defines, over all counted outputs."""
    numbers = (np.asarray(outputs[one.count], np.float64).reshape(-1) for one in counts.values() if one.count in outputs)
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
