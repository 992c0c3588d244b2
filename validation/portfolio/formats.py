"""Other number formats than int8: uint8 of older converters, 16-bit activations, and networks that change theirs."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.chains import CHAINS
from validation.portfolio.entry import WIDE_PRODUCTS, Chain, Draw, PortfolioNetwork

GROUP = "number formats"


def _residual(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 32, 32, 3), "image"), 16, activation="RELU")
    y = net.conv2d(net.depthwise(x, activation="RELU"), 16, (1, 1))
    return [net.conv2d(net.max_pool(net.add(x, y)), 8)]


def _classifier(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 28, 28, 1), "digit"), 16, activation="RELU6")
    x = net.max_pool(net.conv2d(x, 24, strides=(2, 2), activation="RELU6"))
    return [net.softmax(net.fully_connected(net.flatten(x), 10, spread="LOGITS"))]


def _decoder(net: NetworkBuilder) -> list[TensorHandle]:
    first = net.conv2d(net.input((1, 24, 24, 4), "image"), 16, activation="RELU6")
    x = net.transpose_conv(net.conv2d(net.max_pool(first), 16, activation="RELU6"), 16, (2, 2), activation="RELU6")
    return [net.logistic(net.conv2d(net.resize_nearest(net.concat([first, x])), 2))]


def _camera(net: NetworkBuilder) -> list[TensorHandle]:
    """A uint8 camera in front of an int8 network, and a uint8 answer: what TensorFlow's converter makes of such a request."""
    x = net.quantize(net.input((1, 40, 40, 3), "camera", precision="uint8"))
    x = net.conv2d(net.conv2d(x, 16, activation="RELU"), 16, strides=(2, 2), activation="RELU")
    return [net.as_precision(net.conv2d(x, 8), "uint8")]


def _widened(net: NetworkBuilder) -> list[TensorHandle]:
    """int8 that ends in 16 bits."""
    x = net.conv2d(net.input((1, 32, 32, 4), "image"), 16, activation="RELU")
    return [net.as_precision(net.conv2d(x, 8), "int16")]


def _prelu(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.prelu(net.input((1, 24, 24, 16), "image")), 24, activation="RELU6")
    return [net.prelu(net.conv2d(x, 16, activation="RELU6"))]


def _between(chain: Chain, net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 24, 24, 8), "image"), 16, activation="RELU6", name="before")
    return [net.conv2d(chain(net, x), 8, name="behind")]


def _with(name: str, precision: str) -> PortfolioNetwork:
    what = CHAINS[name]
    idiom = f"{precision}: convolution, {what.operator}, convolution"
    return PortfolioNetwork(f"{precision}_{name}", idiom, partial(_between, what.chain), precision, group=GROUP)


def _of(name: str, precision: str, idiom: str, draw: Draw, exception: str = "", *, sampled: bool = False) -> PortfolioNetwork:
    return PortfolioNetwork(name, idiom, draw, precision, exception, GROUP, sampled=sampled)


NETWORKS = (
    _of("residual_uint8", "uint8", "a residual block in uint8, weights included", _residual, sampled=True),
    _of("residual_int16", "int16", "a residual block with 16-bit activations", _residual, sampled=True),
    _of("classifier_uint8", "uint8", "a small classifier in uint8", _classifier),
    _of("classifier_int16", "int16", "a small classifier with 16-bit activations", _classifier, WIDE_PRODUCTS),
    _of("decoder_uint8", "uint8", "an encoder and decoder with a concatenated skip in uint8", _decoder),
    _of("decoder_int16", "int16", "an encoder and decoder with a concatenated skip, 16-bit activations", _decoder),
    _of("camera_uint8", "int8", "uint8 at both ends of an int8 network", _camera),
    _of("widened", "int8", "int8 that ends in 16 bits", _widened),
    *(
        _with(name, "int16")
        for name in ("add_skip", "leaky_relu", "logistic", "mean_keep", "pad", "resize_bilinear", "softmax", "sub", "tanh")
    ),
    *(_with(name, "int16") for name in ("concat_rows", "slice_rows", "split_rows", "transpose_hw")),
    *(_with(name, "uint8") for name in ("average_pool", "concat_columns", "hard_swish", "mean_keep", "minimum", "resize_bilinear_half")),
    *(_with(name, "uint8") for name in ("reshape", "softmax", "strided_rows", "transpose_conv_2x2")),
    _with("transpose_hw", "uint8"),
    _of("prelu_uint8", "uint8", "PReLU first and last in uint8, which one of Vela's cores cannot compile", _prelu),
)
