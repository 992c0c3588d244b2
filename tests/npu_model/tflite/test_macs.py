"""Multiply-accumulates of operators, counted one by one."""

from __future__ import annotations

from itertools import product

import pytest

from npu_model.tflite.macs import MOST, operator_macs
from npu_model.tflite.model import TfliteOperator, TfliteTensor

Shape = tuple[int, ...]


def macs(code: str, output: Shape, *inputs: Shape) -> int:
    shapes = (*inputs, output)
    tensors = [TfliteTensor(str(number), shape, "INT8", (), (), 0, False, b"") for number, shape in enumerate(shapes)]  # no variable
    return operator_macs(TfliteOperator(code, "", tuple(range(len(inputs))), (len(inputs),)), tensors)


def counted(*extents: int) -> int:
    return sum(1 for _ in product(*map(range, extents)))


@pytest.mark.parametrize(
    ("code", "output", "inputs", "expected"),
    [
        # Of a convolution each of 2 x 3 x 5 elements is a window of 3 x 2 pixels of 4 channels.
        ("CONV_2D", (1, 2, 3, 5), ((1, 4, 4, 4), (5, 3, 2, 4)), counted(2, 3, 5, 3, 2, 4)),
        ("DEPTHWISE_CONV_2D", (1, 2, 3, 4), ((1, 4, 4, 4), (1, 3, 2, 4)), counted(2, 3, 4, 3, 2)),
        ("CONV_3D", (1, 2, 2, 2, 3), ((1, 3, 3, 3, 4), (2, 2, 2, 4, 3)), counted(2, 2, 2, 3, 2, 2, 2, 4)),
        # Of a transposed one each of 2 x 3 x 4 elements is spread over 3 x 2 pixels of 5 channels.
        ("TRANSPOSE_CONV", (1, 4, 6, 5), ((4,), (5, 3, 2, 4), (1, 2, 3, 4)), counted(2, 3, 4, 3, 2, 5)),
        ("FULLY_CONNECTED", (2, 5), ((2, 7), (5, 7)), counted(2, 5, 7)),
        ("BATCH_MATMUL", (2, 3, 5), ((2, 3, 7), (2, 7, 5)), counted(2, 3, 5, 7)),
        ("SVDF", (2, 3), ((2, 4), (6, 4), (6, 5), (3,)), counted(2, 6, 4) + counted(2, 6, 5)),
        ("ADD", (2, 3), ((2, 3), (2, 3)), 0),
        ("CONV_2D", (1, 2), ((1, 2),), 0),
    ],
)
def test_an_operator_takes_the_multiply_accumulates_of_its_elements(
    code: str, output: Shape, inputs: tuple[Shape, ...], expected: int
) -> None:
    assert macs(code, output, *inputs) == expected


def test_shapes_of_a_damaged_file_multiply_to_no_more_than_the_most() -> None:
    assert macs("FULLY_CONNECTED", (1 << 40, 1 << 40), (1, 7), (5, 1 << 40)) == MOST
