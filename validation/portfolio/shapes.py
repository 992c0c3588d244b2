"""Unusual shapes and ends: odd sizes, one row, one column, one element, batches, several inputs, outputs in the middle."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def _odd(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 37, 53, 3), "image"), 17, strides=(2, 3), activation="RELU")
    return [net.conv2d(net.max_pool(net.conv2d(x, 23, (5, 2), activation="RELU"), (3, 2), strides=(2, 1)), 7)]


def _line(height: int, width: int, net: NetworkBuilder) -> list[TensorHandle]:
    """Four convolutions along the one axis that is longer than 1."""
    kernel, strides = ((5, 1), (2, 1)) if width == 1 else ((1, 5), (1, 2))
    x = net.conv2d(net.input((1, height, width, 8), "signal"), 32, kernel, activation="RELU")
    x = net.conv2d(net.conv2d(x, 16, kernel, strides=strides, activation="RELU"), 32, kernel, activation="RELU")
    return [net.conv2d(x, 8, kernel, strides=strides)]


def _ones(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 1, 1, 64), "features"), 96, (1, 1), activation="RELU")
    return [net.conv2d(net.conv2d(x, 48, activation="RELU"), 10, (1, 1))]


def _to_one(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 31, 31, 3), "image"), 16, (7, 7), strides=(4, 4), padding="VALID", activation="RELU")
    return [net.conv2d(net.conv2d(x, 32, (7, 7), padding="VALID", activation="RELU"), 5, (1, 1))]


def _tall(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 160, 6, 4), "spectrum"), 24, activation="RELU")
    return [net.conv2d(net.conv2d(x, 24, activation="RELU"), 8, strides=(2, 1))]


def _wide(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 6, 160, 4), "spectrum"), 24, activation="RELU")
    return [net.conv2d(net.conv2d(x, 24, activation="RELU"), 8, strides=(1, 2))]


def _batch(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((2, 24, 24, 4), "images"), 16, activation="RELU")
    x = net.max_pool(net.conv2d(x, 16, activation="RELU"))
    return [net.fully_connected(net.flatten(net.conv2d(x, 8, strides=(2, 2))), 10)]


def _batch_unet(net: NetworkBuilder) -> list[TensorHandle]:
    """Down and up again with a cropped skip."""
    first = net.conv2d(net.input((2, 26, 26, 3), "images"), 8, padding="VALID", activation="RELU6")
    x = net.conv2d(net.max_pool(first), 16, padding="VALID", activation="RELU6")
    up = net.conv2d(net.resize_nearest(x), 8, (1, 1), activation="RELU6")
    edge = (first.shape[1] - up.shape[1]) // 2
    crop = net.slice(first, (0, edge, edge, 0), (2, *up.shape[1:]))
    return [net.conv2d(net.concat([crop, up]), 2)]


def _two_inputs(net: NetworkBuilder) -> list[TensorHandle]:
    image = net.conv2d(net.input((1, 48, 48, 3), "image"), 16, strides=(2, 2), activation="RELU6")
    depth = net.conv2d(net.input((1, 48, 48, 1), "depth"), 16, strides=(2, 2), activation="RELU6")
    pose = net.fully_connected(net.input((1, 6), "pose"), 16, activation="RELU6")
    x = net.conv2d(net.concat([image, depth]), 32, strides=(2, 2), activation="RELU6")
    return [net.fully_connected(net.concat([net.fully_connected(net.mean(x), 16, activation="RELU6"), pose]), 4)]


def _reshaped_outputs(net: NetworkBuilder) -> list[TensorHandle]:
    """A detector that outputs its boxes as a map and as a list, with its scores."""
    x = net.conv2d(net.input((1, 32, 32, 3), "image"), 16, activation="RELU6")
    x = net.conv2d(x, 24, strides=(2, 2), activation="RELU6")
    boxes = net.conv2d(x, 12, (1, 1))
    scores = net.logistic(net.reshape(net.conv2d(x, 6, (1, 1)), (1, 768, 2)))
    return [net.reshape(boxes, (1, 768, 4)), scores, boxes]


def _read_on(net: NetworkBuilder) -> list[TensorHandle]:
    """A map that is also an output as a list of pixels, while convolutions read it."""
    x = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, activation="RELU6")
    return [net.reshape(x, (1, 576, 16)), net.conv2d(net.conv2d(x, 24, activation="RELU6"), 8)]


def _middle_outputs(net: NetworkBuilder) -> list[TensorHandle]:
    first = net.conv2d(net.input((1, 40, 40, 3), "image"), 16, activation="RELU")
    second = net.conv2d(first, 24, strides=(2, 2), activation="RELU")
    third = net.conv2d(second, 32, strides=(2, 2), activation="RELU")
    return [third, net.conv2d(net.conv2d(third, 32, activation="RELU"), 8), first]


def _early_exit(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 48, 48, 3), "image"), 16, strides=(2, 2), activation="RELU")
    early = net.fully_connected(net.mean(x), 10)
    x = net.conv2d(net.conv2d(x, 32, activation="RELU"), 48, strides=(2, 2), activation="RELU")
    return [early, net.fully_connected(net.mean(x), 10)]


def _image_pieces(net: NetworkBuilder) -> list[TensorHandle]:
    """An image cut into overlapping bands of rows, each convolved on its own, joined again."""
    image = net.input((1, 64, 32, 4), "image")
    bands = []
    for band in range(4):
        low, high = max(16 * band - 2, 0), min(16 * band + 18, 64)
        x = net.conv2d(net.slice(image, (0, low, 0, 0), (1, high - low, 32, 4)), 16, activation="RELU6")
        x = net.conv2d(x, 16, activation="RELU6")
        bands.append(net.slice(x, (0, 16 * band - low, 0, 0), (1, 16, 32, 16)))
    return [net.conv2d(net.concat(bands, 1), 8)]


def _long_skip(net: NetworkBuilder) -> list[TensorHandle]:
    first = x = net.conv2d(net.input((1, 40, 40, 3), "image"), 16, activation="RELU")
    for _ in range(4):
        x = net.conv2d(x, 16, activation="RELU")
    return [net.conv2d(net.add(first, x), 4)]


def _diamond(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 40, 40, 3), "image"), 16, activation="RELU6")
    left = net.conv2d(net.conv2d(x, 32, activation="RELU6"), 16, strides=(2, 2), activation="RELU6")
    right = net.conv2d(net.max_pool(x), 16, activation="RELU6")
    return [net.conv2d(net.add(left, right), 16), net.conv2d(net.maximum(left, right), 8)]


def _unread_input(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, activation="RELU")
    net.input((1, 4), "training")
    return [net.conv2d(x, 8, strides=(2, 2))]


def _narrow(channels: int, net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 40, 40, channels), "image"), channels, activation="RELU")
    return [net.conv2d(net.conv2d(x, channels, activation="RELU"), channels)]


def _rows(net: NetworkBuilder) -> list[TensorHandle]:
    return [net.fully_connected(net.fully_connected(net.input((12, 40), "rows"), 36, activation="RELU"), 20)]


def _one_to_many(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.input((1, 48, 48, 1), "image")
    thin = net.conv2d(net.conv2d(x, 20, (1, 5), activation="RELU"), 28, (1, 1), strides=(2, 2))
    return [thin, net.conv2d(x, 40, (3, 1), strides=(2, 2)), net.mean(net.conv2d(x, 36, (2, 2)))]


_of = partial(PortfolioNetwork, group="shapes and ends")

NETWORKS = (
    _of("odd_sizes", "37x53 with odd channels, kernels and strides", _odd, sampled=True),
    _of("one_row", "one row of 256, 1x5 kernels", partial(_line, 1, 256), sampled=True),
    _of("one_column", "one column of 256, 5x1 kernels", partial(_line, 256, 1)),
    _of("one_element", "1x1 tensors from the input on", _ones),
    _of("down_to_one", "7x7 valid convolutions down to one position", _to_one),
    _of("tall", "160 rows of 6", _tall),
    _of("wide", "6 rows of 160", _wide),
    _of("batch_2", "a batch of two images", _batch, sampled=True),
    _of("batch_2_unet", "a U-Net of two images with a cropped skip, which neither of Vela's cores compiles", _batch_unet),
    _of("three_inputs", "image, depth and pose, joined late", _two_inputs),
    _of("reshaped_outputs", "an output that is another one in another shape", _reshaped_outputs),
    _of("reshaped_in_the_middle", "an output that is read on in another shape", _read_on, sampled=True),
    _of("middle_outputs", "outputs in the middle, which later layers read", _middle_outputs, sampled=True),
    _of("early_exit", "a classifier half-way and one at the end", _early_exit),
    _of("overlapping_bands", "an image cut into overlapping bands of rows, joined again", _image_pieces, sampled=True),
    _of("long_skip", "a skip over four convolutions", _long_skip),
    _of("diamond", "two branches that meet twice, in ADD and MAXIMUM", _diamond),
    _of("unread_input", "an input that no layer reads, as a flag of training leaves one", _unread_input),
    _of("channels_17", "17 channels throughout, which pad to 32", partial(_narrow, 17)),
    _of("rows_of_features", "fully connected layers of twelve rows at once", _rows),
    _of("one_to_many", "one channel to 20, 36 and 40, which fill no blocks of 16", _one_to_many),
    _of("channels_1", "one channel throughout", partial(_narrow, 1)),
)
