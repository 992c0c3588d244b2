"""Long reaches: pools over whole maps in odd sizes and all types, wide images, and skips over long distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork

Pool = Callable[[NetworkBuilder, TensorHandle], TensorHandle]


def _average(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.average_pool(x)


def _mean(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.mean(x, keep=True)


def _mean_of_rows(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.mean(x, (1,), keep=True)


def _maximum(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.max_pool(x, (x.shape[1], x.shape[2]), strides=(1, 1), padding="VALID")


def _pooled(pool: Pool, shape: tuple[int, int, int], channels: int, net: NetworkBuilder) -> list[TensorHandle]:
    """Two convolutions, a pool over all rows, and classes of its result."""
    x = net.conv2d(net.input((1, *shape), "image"), 8, strides=(2, 2), activation="RELU6")
    x = net.conv2d(x, channels, (1, 1), activation="RELU6")
    return [net.conv2d(pool(net, x), 7, (1, 1))]


def _panorama(net: NetworkBuilder) -> list[TensorHandle]:
    """A wide image down to a small one, with the convolutions of a mobile network."""
    x = net.conv2d(net.input((1, 24, 256, 3), "panorama"), 16, strides=(2, 2), activation="RELU6")
    x = net.conv2d(net.depthwise(x, activation="RELU6"), 24, (1, 1), activation="RELU6")
    x = net.conv2d(net.depthwise(x, strides=(2, 2), activation="RELU6"), 32, (1, 1), activation="RELU6")
    return [net.conv2d(net.conv2d(x, 32, strides=(2, 2), activation="RELU6"), 5, (1, 1))]


def _super_resolution(net: NetworkBuilder) -> list[TensorHandle]:
    """A head, a body of six convolutions, the head added to the body's result, and pixels of four."""
    head = x = net.conv2d(net.input((1, 48, 48, 3), "image"), 16)
    for number in range(6):
        x = net.conv2d(x, 16, activation="NONE" if number % 2 else "RELU")
    return [net.depth_to_space(net.conv2d(net.add(x, head), 12))]


def _far_concat(net: NetworkBuilder) -> list[TensorHandle]:
    """The first features joined to those five convolutions later."""
    first = x = net.conv2d(net.input((1, 40, 56, 3), "image"), 12, activation="RELU6")
    for _ in range(5):
        x = net.conv2d(x, 16, activation="RELU6")
    return [net.conv2d(net.concat([first, x]), 6)]


_of = partial(PortfolioNetwork, group="long reaches")

_ODD, _LONG = (43, 61, 3), (40, 288, 3)

NETWORKS = (
    *(
        _of(f"average_of_{kind}", f"an average over 22x31 in {kind}", partial(_pooled, _average, _ODD, 36), kind)
        for kind in ("int8", "uint8")
    ),
    _of("average_of_int16", "an average over 22x31 of 16 bits", partial(_pooled, _average, _ODD, 36), "int16"),
    *(
        _of(f"mean_of_{kind}", f"a MEAN over 22x31 in {kind}", partial(_pooled, _mean, _ODD, 36), kind)
        for kind in ("int8", "uint8", "int16")
    ),
    _of("mean_of_rows", "a MEAN over the rows of 22x31 alone", partial(_pooled, _mean_of_rows, _ODD, 24)),
    _of("maximum_of_all", "a maximum over 22x31", partial(_pooled, _maximum, _ODD, 36)),
    _of("mean_of_long_rows", "a MEAN over 20x144, whose sums of a row leave 16 bits", partial(_pooled, _mean, _LONG, 16), sampled=True),
    _of("average_of_long_rows", "an average over 20x144", partial(_pooled, _average, _LONG, 16)),
    _of("panorama", "24 rows of 256, down to 3 of 32", _panorama, sampled=True),
    _of("super_resolution", "a skip over a body of six convolutions", _super_resolution, sampled=True),
    _of("far_concat", "a CONCATENATION over five convolutions", _far_concat),
)
