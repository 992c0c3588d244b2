"""The networks whose figures were named when cascades still ended at every odd tensor: small, ordinary, and lost to Vela then."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def mnist(net: NetworkBuilder) -> list[TensorHandle]:
    """Two valid convolutions of 32 and 64 filters, max pool, flatten, ten classes."""
    x = net.conv2d(net.input((1, 28, 28, 1), "digit"), 32, padding="VALID", activation="RELU", name="conv_1")
    x = net.conv2d(x, 64, padding="VALID", activation="RELU", name="conv_2")
    return [net.fully_connected(net.flatten(net.max_pool(x)), 10, name="logits")]


def _pair(net: NetworkBuilder, x: TensorHandle, number: int = 1) -> TensorHandle:
    """Two convolutions of 64x64x4, of 32 filters and of 16 with stride 2: 131,072 bytes lie between them, 16,384 before and after."""
    x = net.conv2d(x, 32, activation="RELU", name=f"conv_{number}")
    return net.conv2d(x, 16, strides=(2, 2), activation="RELU", name=f"conv_{number + 1}")


def _image(net: NetworkBuilder) -> TensorHandle:
    return net.input((1, 64, 64, 4), "image")


def _flatten(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.fully_connected(net.flatten(_pair(net, _image(net))), 10, name="logits")]


def _depth_to_space(net: NetworkBuilder) -> list[TensorHandle]:
    return [_pair(net, net.depth_to_space(_pair(net, _image(net)), name="on_cpu"), 3)]


def _skip(net: NetworkBuilder) -> list[TensorHandle]:
    image = _image(net)
    return [net.add(image, net.depth_to_space(_pair(net, image), name="on_cpu"), name="add")]


def _transpose(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.conv2d(net.transpose(_pair(net, _image(net)), (0, 2, 1, 3)), 32, name="conv_3")]


def _reshape(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.conv2d(net.reshape(_pair(net, _image(net)), (1, 16, 64, 16)), 32, name="conv_3")]


def _pad_pool(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.conv2d(_image(net), 32, activation="RELU", name="conv_1"), 16, activation="RELU", name="conv_2")
    return [net.max_pool(net.pad(x, 3, 3, 3, 3, name="pad"), (3, 3), strides=(2, 2))]


def _split_rows(net: NetworkBuilder) -> list[TensorHandle]:
    top, bottom = net.split(_pair(net, _image(net)), 2, 1, name="halves")
    return [net.add(net.conv2d(top, 32, name="conv_3"), net.conv2d(bottom, 32, name="conv_4"), name="add")]


def _small(net: NetworkBuilder) -> TensorHandle:
    return net.input((1, 32, 32, 8), "image")


def _concat_rows(net: NetworkBuilder) -> list[TensorHandle]:
    image = _small(net)
    halves = [net.conv2d(image, 16, activation="RELU6", name=f"conv_{number}") for number in (1, 2)]
    return [net.conv2d(net.concat(halves, 1, name="concat"), 8, name="conv_3")]


def _crop_rows(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_small(net), 16, activation="RELU", name="conv_1")
    return [net.conv2d(net.slice(x, (0, 8, 0, 0), (1, 16, 32, 16), name="crop"), 16, name="conv_2")]


def _half_pixel(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_small(net), 16, activation="RELU", name="conv_1")
    return [net.conv2d(net.resize_bilinear(x, half_pixel=True, name="resize"), 8, name="conv_2")]


def _transpose_conv(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(_small(net), 16, activation="RELU", name="conv_1")
    return [net.conv2d(net.transpose_conv(x, 16, name="up"), 8, name="conv_2")]


_named = partial(PortfolioNetwork, group="named figures")

NETWORKS = (
    _named("mnist", "Keras' MNIST example: two valid convolutions, pool, flatten, classes", mnist, sampled=True),
    _named("flatten_fc", "two convolutions, flatten, fully connected", _flatten),
    _named("d2s_between_pairs", "DEPTH_TO_SPACE on the CPU between two pairs of convolutions", _depth_to_space, sampled=True),
    _named("skip_over_cpu", "a skip across an operator on the CPU", _skip),
    _named("pair_transpose_conv", "two convolutions, height and width exchanged, convolution", _transpose, sampled=True),
    _named("pair_reshape_conv", "two convolutions, reshape to another width, convolution", _reshape),
    _named("pair_pad_pool", "two convolutions, padded by 3 on every side, max pool", _pad_pool),
    _named("split_rows_add", "an upper and a lower half, each convolved, added", _split_rows),
    _named("concat_rows", "two convolutions, one below the other, convolution", _concat_rows, sampled=True),
    _named("crop_rows", "convolution, the middle rows of it, convolution", _crop_rows),
    _named("half_pixel_resize", "convolution, bilinear resize with half-pixel centres, convolution", _half_pixel),
    _named("transpose_conv_3x3", "convolution, transposed convolution 3x3 of stride 2, convolution", _transpose_conv, sampled=True),
)
