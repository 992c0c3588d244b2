"""The NPU's operators, one by one, each as something to add after a tensor."""

from __future__ import annotations

from msgspec import Struct

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import LSTM, Chain


class Link(Struct, frozen=True):
    """An ``operator`` as TFLite and a reader call it, and the ``chain`` that adds it.

    ``positive`` operators are defined for values above zero alone. An ``only_last`` operator gives numbers that no layer reads.
    ``exception`` is why its outputs may differ from LiteRT's, "" if they may not; ``unverifiable`` why LiteRT cannot run it.
    """

    operator: str
    chain: Chain
    positive: bool = False
    only_last: bool = False
    exception: str = ""
    unverifiable: str = ""


def as_image(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """``x`` reshaped to four dimensions, if it has others: a row or a column of positions."""
    if len(x.shape) == 4:
        return x
    shape = (1, *x.shape[1:-1], x.shape[-1]) if len(x.shape) > 4 else (1, x.shape[1] if len(x.shape) == 3 else 1, 1, x.shape[-1])
    return net.reshape(x, (1, shape[1], *_merged(shape[2:])))


def _merged(shape: tuple[int, ...]) -> tuple[int, int]:
    width = 1
    for extent in shape[:-1]:
        width *= extent
    return width, shape[-1]


def like(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """Another tensor of the shape and scale of ``x``: its largest neighbours."""
    return net.max_pool(x, (3, 3), strides=(1, 1), padding="SAME")


def _split_add(axis: int) -> Chain:
    def chain(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
        first, second = net.split(x, 2, axis)
        return net.add(first, second)

    return chain


def _split_unequal(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    height = x.shape[1]
    top, middle, bottom = net.split_at(x, (height // 4, height // 2, height - height // 4 - height // 2), 1)
    return net.concat([bottom, like(net, middle), top], 1)


def _unpack(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    rows = net.unpack(net.reshape(x, (1, 4, x.shape[1] // 4 * x.shape[2], x.shape[3])), 1)
    return net.add(net.add(rows[0], rows[1]), net.add(rows[2], rows[3]))


def coarse(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    """``x`` pooled to a third of its height and width: for operators that would be long on a whole map."""
    return net.max_pool(x, (3, 3), padding="SAME")


def _tokens(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    return net.reshape(x, (1, x.shape[1] * x.shape[2], x.shape[3]))


def _attention(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    tokens = _tokens(net, coarse(net, x))
    return net.batch_matmul(net.softmax(net.batch_matmul(tokens, tokens, transpose_b=True)), tokens)


def _lstm(net: NetworkBuilder, x: TensorHandle) -> TensorHandle:
    pooled = coarse(net, x)
    return net.lstm(net.reshape(pooled, (1, pooled.shape[1], pooled.shape[2] * pooled.shape[3])), 16)


CHAINS: dict[str, Link] = {
    "abs": Link("ABS", lambda net, x: net.unary("ABS", x)),
    "add_constant": Link("ADD of a constant per channel", lambda net, x: net.add(x, net.constant((1, 1, 1, x.shape[3])))),
    "add_skip": Link("ADD over a skip", lambda net, x: net.add(x, net.depthwise(x))),
    "add_row": Link("ADD of one row to all", lambda net, x: net.add(x, net.reduce_max(x, (1,), keep=True))),
    "arg_max": Link("ARG_MAX", lambda net, x: net.arg_max(x), only_last=True),
    "average_pool": Link("AVERAGE_POOL_2D 3x3", lambda net, x: net.average_pool(x, (3, 3), strides=(1, 1), padding="SAME")),
    "attention": Link("BATCH_MATMUL, SOFTMAX, BATCH_MATMUL", _attention),
    "concat_rows": Link("CONCATENATION of rows", lambda net, x: net.concat([x, like(net, x)], 1)),
    "concat_columns": Link("CONCATENATION of columns", lambda net, x: net.concat([x, like(net, x)], 2)),
    "concat_channels": Link("CONCATENATION of channels", lambda net, x: net.concat([x, like(net, x)])),
    "conv_strided": Link("CONV_2D 5x5 of stride 3", lambda net, x: net.conv2d(x, 24, (5, 5), strides=(3, 3))),
    "conv_dilated": Link("CONV_2D with dilation 2", lambda net, x: net.conv2d(x, 16, dilation=(2, 2))),
    "conv_wide": Link("CONV_2D of one row, 1x9", lambda net, x: net.conv2d(x, 16, (1, 9))),
    "depthwise": Link("DEPTHWISE_CONV_2D of stride 2", lambda net, x: net.depthwise(x, strides=(2, 2))),
    "depthwise_twice": Link("DEPTHWISE_CONV_2D with multiplier 2", lambda net, x: net.depthwise(coarse(net, x), multiplier=2)),
    "elu": Link("ELU", lambda net, x: net.unary("ELU", x), unverifiable="LiteRT's reference kernels have no ELU for integers"),
    "exp": Link("EXP", lambda net, x: net.unary("EXP", x)),
    "expand_dims": Link("EXPAND_DIMS, SQUEEZE", lambda net, x: net.squeeze(net.expand_dims(x, 1), 1)),
    "fully_connected": Link("FULLY_CONNECTED", lambda net, x: net.fully_connected(net.flatten(coarse(net, x)), 64)),
    "gelu": Link("GELU", lambda net, x: net.unary("GELU", x)),
    "hard_swish": Link("HARD_SWISH", lambda net, x: net.unary("HARD_SWISH", x)),
    "leaky_relu": Link("LEAKY_RELU", lambda net, x: net.leaky_relu(x)),
    "log": Link("LOG", lambda net, x: net.unary("LOG", x), positive=True),
    "logistic": Link("LOGISTIC", lambda net, x: net.logistic(x)),
    "lstm": Link("UNIDIRECTIONAL_SEQUENCE_LSTM", _lstm, exception=LSTM),
    "maximum": Link("MAXIMUM", lambda net, x: net.maximum(x, like(net, x))),
    "max_pool": Link("MAX_POOL_2D 3x3 of stride 2", lambda net, x: net.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")),
    "mean": Link("MEAN over positions", lambda net, x: net.mean(x)),
    "mean_keep": Link("MEAN over positions, kept, MUL", lambda net, x: net.multiply(x, net.mean(x, keep=True))),
    "mean_rows": Link("MEAN over rows", lambda net, x: net.mean(x, (1,), keep=True)),
    "minimum": Link("MINIMUM", lambda net, x: net.minimum(x, like(net, x))),
    "mirror_pad": Link("MIRROR_PAD", lambda net, x: net.mirror_pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)))),
    "mul_constant": Link("MUL by a constant per channel", lambda net, x: net.multiply(x, net.constant((x.shape[3],)))),
    "neg": Link("NEG", lambda net, x: net.unary("NEG", x)),
    "pack": Link("PACK", lambda net, x: net.reshape(net.pack([x, like(net, x)], 1), (1, 2 * x.shape[1], *x.shape[2:]))),
    "pad": Link("PAD", lambda net, x: net.pad(x, 1, 2, 3, 0)),
    "pad_channels": Link("PAD of channels", lambda net, x: net.pad_all(x, ((0, 0), (0, 0), (0, 0), (0, 8)))),
    "pad_with": Link("PADV2", lambda net, x: net.pad_with(x, ((0, 0), (1, 1), (1, 1), (0, 0)), 5)),
    "prelu": Link("PRELU", lambda net, x: net.prelu(x)),
    "quantize": Link("QUANTIZE", lambda net, x: net.quantize(x)),
    "reduce_max": Link("REDUCE_MAX over rows", lambda net, x: net.reduce_max(x, (1,), keep=True)),
    "reduce_min": Link("REDUCE_MIN over columns", lambda net, x: net.reduce_min(x, (2,), keep=True)),
    "relu": Link("RELU", lambda net, x: net.unary("RELU", x)),
    "relu6": Link("RELU6", lambda net, x: net.unary("RELU6", x)),
    "relu_0_to_1": Link("RELU_0_TO_1", lambda net, x: net.unary("RELU_0_TO_1", x)),
    "relu_n1_to_1": Link("RELU_N1_TO_1", lambda net, x: net.unary("RELU_N1_TO_1", x)),
    "reshape": Link("RESHAPE to another width", lambda net, x: net.reshape(x, (1, x.shape[1] // 2, x.shape[2] * 2, x.shape[3]))),
    "reshape_channels": Link(
        "RESHAPE of columns to channels", lambda net, x: net.reshape(x, (1, x.shape[1], x.shape[2] // 2, x.shape[3] * 2))
    ),
    "resize_bilinear": Link("RESIZE_BILINEAR by 2", lambda net, x: net.resize_bilinear(x)),
    "resize_bilinear_4": Link("RESIZE_BILINEAR by 4", lambda net, x: net.resize_bilinear(coarse(net, x), 4)),
    "resize_bilinear_corners": Link("RESIZE_BILINEAR with aligned corners", lambda net, x: net.resize_bilinear(x, align_corners=True)),
    "resize_bilinear_half": Link("RESIZE_BILINEAR with half-pixel centres", lambda net, x: net.resize_bilinear(x, half_pixel=True)),
    "resize_nearest": Link("RESIZE_NEAREST_NEIGHBOR by 2", lambda net, x: net.resize_nearest(x)),
    "resize_nearest_half": Link("RESIZE_NEAREST_NEIGHBOR with half-pixel centres", lambda net, x: net.resize_nearest(x, half_pixel=True)),
    "resize_nearest_corners": Link(
        "RESIZE_NEAREST_NEIGHBOR with aligned corners", lambda net, x: net.resize_nearest(x, align_corners=True)
    ),
    "reverse_rows": Link("REVERSE_V2 of rows", lambda net, x: net.reverse(x, 1)),
    "reverse_columns": Link("REVERSE_V2 of columns", lambda net, x: net.reverse(x, 2)),
    "reverse_channels": Link("REVERSE_V2 of channels", lambda net, x: net.reverse(x, 3)),
    "rsqrt": Link("RSQRT", lambda net, x: net.unary("RSQRT", x), positive=True),
    "slice_rows": Link("SLICE of rows", lambda net, x: net.slice(x, (0, 4, 0, 0), (1, x.shape[1] - 9, *x.shape[2:]))),
    "slice_columns": Link("SLICE of columns", lambda net, x: net.slice(x, (0, 0, 3, 0), (1, x.shape[1], x.shape[2] - 5, x.shape[3]))),
    "slice_channels": Link("SLICE of channels", lambda net, x: net.slice(x, (0, 0, 0, 4), (*x.shape[:3], 8))),
    "softmax": Link("SOFTMAX over channels", lambda net, x: net.softmax(x)),
    "split_rows": Link("SPLIT of rows, ADD", _split_add(1)),
    "split_columns": Link("SPLIT of columns, ADD", _split_add(2)),
    "split_channels": Link("SPLIT of channels, ADD", _split_add(3)),
    "split_unequal": Link("SPLIT_V of rows, CONCATENATION in another order", _split_unequal),
    "squared_difference": Link("SQUARED_DIFFERENCE", lambda net, x: net.squared_difference(x, like(net, x))),
    "strided_rows": Link("STRIDED_SLICE of every second row", lambda net, x: net.strided_slice(x, (0,) * 4, x.shape, (1, 2, 1, 1))),
    "strided_columns": Link("STRIDED_SLICE of every second column", lambda net, x: net.strided_slice(x, (0,) * 4, x.shape, (1, 1, 2, 1))),
    "sub": Link("SUB", lambda net, x: net.subtract(x, net.average_pool(x, (3, 3), strides=(1, 1), padding="SAME"))),
    "sum": Link("SUM over channels", lambda net, x: net.sum(x, (3,), keep=True)),
    "tanh": Link("TANH", lambda net, x: net.tanh(x)),
    "tile": Link("TILE of rows", lambda net, x: net.tile(x, (1, 2, 1, 1))),
    "transpose_hw": Link("TRANSPOSE of height and width", lambda net, x: net.transpose(x, (0, 2, 1, 3))),
    "transpose_nchw": Link("TRANSPOSE to NCHW", lambda net, x: net.transpose(x, (0, 3, 1, 2))),
    "transpose_wc": Link("TRANSPOSE of width and channels", lambda net, x: net.transpose(x, (0, 1, 3, 2))),
    "transpose_conv_2x2": Link("TRANSPOSE_CONV 2x2 of stride 2", lambda net, x: net.transpose_conv(x, 16, (2, 2))),
    "transpose_conv_4x4": Link("TRANSPOSE_CONV 4x4 of stride 2", lambda net, x: net.transpose_conv(x, 16, (4, 4))),
    "transpose_conv_valid": Link("TRANSPOSE_CONV 3x3 of stride 2, valid", lambda net, x: net.transpose_conv(x, 16, padding="VALID")),
    "unpack": Link("UNPACK, ADD", _unpack),
}
"""By the name that the networks made of them have."""
