"""Kernels of TFLite Micro: what is computed is what Arm's ready firmware asked of its arena, read in the emulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from npu_model.tflite.kernel_bytes import KernelBytes
from npu_model.tflite.micro_kernels import kernel_bytes
from npu_model.tflite.model import TfliteOperator, read_tflite
from npu_model.tflite.record_reader import RecordReader
from validation.builder import NetworkBuilder, TensorHandle

Drawn = Callable[[NetworkBuilder, TensorHandle], TensorHandle]

IMAGE = (1, 8, 12, 4)

REQUESTS: dict[str, tuple[str, tuple[int, ...], Drawn, tuple[int, ...], tuple[int, ...]]] = {
    "transposed": ("int8", IMAGE, lambda net, x: net.transpose_conv(x, 8, (5, 2), strides=(2, 4)), (76, 32, 32), (7360,)),
    "transposed by one": ("int8", IMAGE, lambda net, x: net.transpose_conv(x, 8, (5, 2), strides=(1, 1)), (76, 32, 32), (2080,)),
    "transposed, high": (
        "int8",
        (1, 16, 16, 4),
        lambda net, x: net.transpose_conv(x, 8, (6, 2), strides=(3, 4), padding="VALID"),
        (76, 32, 32),
        (12096,),
    ),
    "transposed, small": ("int8", (1, 7, 5, 3), lambda net, x: net.transpose_conv(x, 16, (2, 2), strides=(4, 4)), (76, 64, 64), (5120,)),
    "of 16 channels": ("int8", (1, 8, 12, 16), lambda net, x: net.transpose_conv(x, 8), (76, 32, 32), (2400,)),
    "of 17 channels": ("int8", (1, 8, 12, 17), lambda net, x: net.transpose_conv(x, 8), (76, 32, 32), (640, 1224)),
    "deep, far strides": ("int8", (1, 6, 6, 20), lambda net, x: net.transpose_conv(x, 3, strides=(3, 3)), (76, 12, 12), (648,)),
    "transposed, 16 bits": ("int16", IMAGE, lambda net, x: net.transpose_conv(x, 8), (76, 32, 32), (24576,)),
    "transposed, reals": ("float32", IMAGE, lambda net, x: net.transpose_conv(x, 8), (76, 32, 32), ()),
    "convolution": ("int8", (1, 16, 16, 9), lambda net, x: net.conv2d(x, 5), (60, 20, 20), (384,)),
    "convolution, 16 bits": ("int16", (1, 16, 16, 9), lambda net, x: net.conv2d(x, 5), (60, 20, 20), (704,)),
    "convolution, reals": ("float32", IMAGE, lambda net, x: net.conv2d(x, 8), (60,), ()),
    "pointwise": ("int8", IMAGE, lambda net, x: net.conv2d(x, 8, (1, 1)), (60, 32, 32), ()),
    "depthwise": ("int8", (1, 16, 16, 200), lambda net, x: net.depthwise(x, (5, 3)), (60, 800, 800), (7440,)),
    "depthwise, dilated": ("int8", (1, 16, 16, 8), lambda net, x: net.depthwise(x, dilation=(2, 2)), (60, 32, 32), ()),
    "depthwise of one": ("int8", (1, 16, 16, 1), lambda net, x: net.depthwise(x, (5, 5), multiplier=9), (60, 36, 36), (353,)),
    "depthwise, 16 bits": ("int16", (1, 16, 16, 16), lambda net, x: net.depthwise(x), (60, 64, 64), ()),
    "dense": ("int8", (1, 64), lambda net, x: net.fully_connected(x, 100), (72, 400), ()),
    "dense, 16 bits": ("int16", (1, 64), lambda net, x: net.fully_connected(x, 100), (72,), ()),
    "softmax, 16 bits": ("int16", (1, 50), lambda net, x: net.softmax(x), (64, 1026, 1026), ()),
    "filters": ("int8", (1, 20), lambda net, x: net.svdf(x, 10, 5), (40, 40), (40, 40)),
    "mean": ("int8", (1, 16, 16, 12), lambda net, x: net.mean(x, (1,)), (40,), (768,)),
    "largest": ("int8", (1, 16, 16, 12), lambda net, x: net.reduce_max(x, (3,)), (40,), (16, 4)),
    "mirrored": ("int8", IMAGE, lambda net, x: net.mirror_pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (20,), (16, 16)),
    "matrices": ("int8", (1, 6, 8), lambda net, x: net.batch_matmul(x, net.input((1, 8, 10), "b")), (36, 12, 16, 80, 16), (40,)),
    "turned": ("int8", (1, 6, 8), lambda net, x: net.batch_matmul(x, net.input((1, 10, 8), "b"), transpose_b=True), (36, 16), (40,)),
    "every third": ("int8", IMAGE, lambda net, x: net.strided_slice(x, (0, 0, 0, 0), (1, 8, 8, 4), (1, 3, 3, 1)), (84,), ()),
    "argmax": ("int8", IMAGE, lambda net, x: net.arg_max(x), (), ()),
}
"""Networks of one operator, with what its kernel kept of the arena and what scratch it asked for."""


def aligned(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple((size + 15) // 16 * 16 for size in sizes)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_kernel_keeps_and_borrows_what_the_firmware_asked_for(name: str) -> None:
    precision, shape, drawn, kept, scratch = REQUESTS[name]
    net = NetworkBuilder("a", precision)
    data = net.finish([drawn(net, net.input(shape, "x"))])
    model, options = read_tflite(data), dict(RecordReader(data).operator(0).fields)
    found = kernel_bytes(model.operators[0], model.tensors, options)
    assert found == KernelBytes(sum(aligned(kept)), aligned(scratch), found is not None and found.perhaps)


def test_a_row_of_a_convolution_may_need_no_scratch() -> None:
    net = NetworkBuilder("a")
    data = net.finish([net.conv2d(net.input((1, 1, 40, 8), "x"), 8, (1, 10), strides=(1, 4))])
    model = read_tflite(data)
    assert kernel_bytes(model.operators[0], model.tensors, {}) == KernelBytes(128, (320,), perhaps=True)


def test_a_kernel_that_was_not_measured_or_has_other_tensors_has_no_bytes() -> None:
    net = NetworkBuilder("a")
    model = read_tflite(net.finish([net.softmax(net.input((1, 50), "x"))]))
    (operator,) = model.operators
    assert kernel_bytes(TfliteOperator("TILE", "", operator.inputs, operator.outputs), model.tensors, {}) is None
    assert kernel_bytes(TfliteOperator("CONV_2D", "", operator.inputs, operator.outputs), model.tensors, {}) is None
