"""Networks whose operators Vela leaves partly on the CPU: before, between, after and next to those that the NPU runs."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def _image(net: NetworkBuilder, channels: int = 4) -> TensorHandle:
    return net.input((1, 48, 48, channels), "image")


def _pair(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.conv2d(net.conv2d(x, 24, activation="RELU6"), 16, strides=(2, 2), activation="RELU6")


def _before(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.conv2d(_pair(net, net.space_to_depth(_image(net, 3))), 8)]


def _behind(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.depth_to_space(_pair(net, _image(net)))]


def _between_gather(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.gather(_pair(net, _image(net)), range(0, 24, 2), 1)
    return [net.conv2d(net.conv2d(x, 24, activation="RELU6"), 8)]


def _words(net: NetworkBuilder) -> list[TensorHandle]:
    """A classifier of the rows that GATHER takes from a table, as of words."""
    x = net.gather(net.input((1, 1, 50, 16), "table"), range(0, 40, 2), 2)
    return [net.fully_connected(net.mean(net.conv2d(x, 32, (1, 1), activation="RELU")), 4)]


def _beside(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_image(net), 16, strides=(2, 2), activation="RELU6")
    side = net.space_to_depth(x)
    main = net.conv2d(net.conv2d(x, 32, activation="RELU6"), 64, strides=(2, 2), activation="RELU6")
    return [net.conv2d(net.add(main, side), 8, (1, 1))]


def _twice(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.space_to_depth(net.conv2d(_image(net), 8, activation="RELU6"))
    x = net.depth_to_space(net.conv2d(x, 32, activation="RELU6"))
    return [net.conv2d(x, 8)]


def _passed_by(net: NetworkBuilder) -> list[TensorHandle]:
    """Two skips of different ages wait while the CPU works."""
    first = net.conv2d(_image(net), 8, activation="RELU6")
    second = net.conv2d(net.conv2d(first, 24, activation="RELU6"), 32, strides=(2, 2), activation="RELU6")
    x = net.conv2d(net.depth_to_space(second), 8, activation="RELU6")
    pooled = net.average_pool(net.add(first, x), (2, 2))
    return [net.add(net.conv2d(pooled, 32), second)]


def _resize_odd(net: NetworkBuilder) -> list[TensorHandle]:
    """Bilinear by 3, which the NPU does not have."""
    x = net.conv2d(net.conv2d(net.input((1, 16, 16, 8), "image"), 32, activation="RELU6"), 16, activation="RELU6")
    return [net.conv2d(net.conv2d(net.resize_bilinear(x, 3), 16, activation="RELU6"), 4)]


def _heads(net: NetworkBuilder) -> list[TensorHandle]:
    x = _pair(net, _image(net))
    return [net.gather(net.conv2d(x, 8), (0, 3, 5), 3), net.conv2d(x, 4), net.depth_to_space(x)]


def _two_in_a_row(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.space_to_depth(net.depth_to_space(_pair(net, _image(net))))
    return [net.conv2d(net.conv2d(x, 24, activation="RELU6"), 8)]


_of = partial(PortfolioNetwork, group="on the CPU")

NETWORKS = (
    _of("cpu_first", "SPACE_TO_DEPTH of the image, then convolutions", _before),
    _of("cpu_last", "convolutions, then DEPTH_TO_SPACE to the output", _behind),
    _of("cpu_gather", "GATHER of every second row between convolutions", _between_gather, sampled=True),
    _of("cpu_words", "GATHER of rows of a table, then three small layers", _words, sampled=True),
    _of("cpu_beside", "SPACE_TO_DEPTH on a branch beside convolutions", _beside, sampled=True),
    _of("cpu_twice", "SPACE_TO_DEPTH and DEPTH_TO_SPACE with a convolution between", _twice),
    _of("cpu_passed_by", "two skips over an operator on the CPU", _passed_by),
    _of("cpu_resize", "bilinear resize by 3 between pairs of convolutions", _resize_odd),
    _of("cpu_heads", "three outputs, of which two come from the CPU", _heads),
    _of("cpu_in_a_row", "two operators on the CPU, one after the other", _two_in_a_row),
)
