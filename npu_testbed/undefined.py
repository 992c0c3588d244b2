"""Outputs that an operator leaves undefined in part: what lies behind the number of valid entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.tflite.model import TfliteModel

Array = NDArray[Any]

_COUNTED = {"TFLite_Detection_PostProcess": ((0, 1, 2), 3)}
"""Outputs of an operator of which only the first entries along axis 1 are written, and the output that is their number.

Source: LiteRT's kernel ``detection_postprocess.cc``, which writes the boxes, classes and scores of the valid detections alone.
"""


def counted_outputs(model: TfliteModel) -> dict[str, str]:
    """Names of the model's outputs that are defined in part alone, each with the name of the output that counts its entries."""
    found: dict[str, str] = {}
    for operator in model.operators:
        outputs, count = _COUNTED.get(operator.custom_code, ((), 0))
        if len(operator.outputs) > count and operator.outputs[count] in model.outputs:
            named = [operator.outputs[place] for place in outputs if operator.outputs[place] in model.outputs]
            found |= {model.tensors[index].name: model.tensors[operator.outputs[count]].name for index in named}
    return found


def defined_part(ours: Array, theirs: Array, count: Array | None) -> tuple[Array, Array]:
    """The entries of two outputs that the number ``count`` says are defined; all if there is none, or the two have other shapes."""
    if count is None or ours.shape != theirs.shape or ours.ndim < 2 or count.size != 1:
        return ours, theirs
    number = float(np.asarray(count, np.float64).reshape(-1)[0])
    valid = int(number) if 0 <= number <= ours.shape[1] else ours.shape[1]
    return ours[:, :valid], theirs[:, :valid]
