"""Multiply-accumulates of an operator of a .tflite file, from the shapes of its tensors: the work of a CPU that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from npu_model.tflite.model import TfliteOperator, TfliteTensor

_Shape = tuple[int, ...]

_WEIGHTS, _IMAGE = 1, 2
"""Operand numbers of an operator's weights, and of a transposed convolution's input."""

_MATRIX = 2

MOST = (1 << 47) - 1
"""The largest number that is given for an operator, some days of a microcontroller, because shapes of a damaged file may multiply to
anything.
"""


def _convolution(inputs: Sequence[_Shape], output: _Shape) -> int:
    """Weights (out, height, width, in): each output element is the sum of a window."""
    return prod(output) * prod(inputs[_WEIGHTS][1:])


def _depthwise(inputs: Sequence[_Shape], output: _Shape) -> int:
    """Weights (1, height, width, out): each output element is the sum of a window of one channel."""
    return prod(output) * prod(inputs[_WEIGHTS][1:3])


def _volume(inputs: Sequence[_Shape], output: _Shape) -> int:
    """Weights (depth, height, width, in, out)."""
    return prod(output) * prod(inputs[_WEIGHTS][:-1])


def _transposed(inputs: Sequence[_Shape], _: _Shape) -> int:
    """Weights (out, height, width, in): each input element is spread over a window of every output channel."""
    return prod(inputs[_IMAGE]) * prod(inputs[_WEIGHTS][:3])


def _dense(inputs: Sequence[_Shape], output: _Shape) -> int:
    """Weights (out, in)."""
    return prod(output) * inputs[_WEIGHTS][-1]


def _matrices(inputs: Sequence[_Shape], output: _Shape) -> int:
    """Operands (..., rows, inner) and (..., inner, columns), each perhaps transposed.

    The inner extent is the one that the output does not have.
    """
    return prod(output) * prod(inputs[0]) // max(prod(output[:-1]), 1)


def _recurrent(inputs: Sequence[_Shape], _: _Shape) -> int:
    """Every matrix of weights once for each row of the input, whose first extents are batch and time."""
    return prod(inputs[0][:-1]) * sum(prod(shape) for shape in inputs[1:] if len(shape) == _MATRIX)


_KINDS: dict[str, Callable[[Sequence[_Shape], _Shape], int]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _volume,
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matrices,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recurrent,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
    "SVDF": _recurrent,
}


def operator_macs(operator: TfliteOperator, tensors: Sequence[TfliteTensor]) -> int:
    """The multiply-accumulates of one run, at most :data:`MOST`; 0 for an operator without any, or with tensors of other ranks."""
    kind = _KINDS.get(operator.name)
    if kind is None or not operator.outputs:
        return 0
    shapes = [tensors[index].shape if index >= 0 else () for index in operator.inputs]
    try:
        return min(kind(shapes, tensors[operator.outputs[0]].shape), MOST)
    except IndexError:
        return 0
