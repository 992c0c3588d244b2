"""Networks whose output is an image, or a map of boxes: autoencoders, U-Nets, super-resolution, detectors."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def _autoencoder(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 32, 32, 1), "image"), 16, strides=(2, 2), activation="RELU")
    x = net.conv2d(x, 8, strides=(2, 2), activation="RELU")
    x = net.transpose_conv(net.transpose_conv(x, 8, activation="RELU"), 16, activation="RELU")
    return [net.logistic(net.conv2d(x, 1))]


def _dense_autoencoder(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.input((1, 256), "frames")
    for units in (64, 64, 8, 64, 64):
        x = net.fully_connected(x, units, activation="RELU")
    return [net.fully_connected(x, 256)]


def _unet_padded(net: NetworkBuilder) -> list[TensorHandle]:
    first = net.conv2d(net.input((1, 48, 48, 3), "image"), 16, activation="RELU6")
    second = net.conv2d(net.max_pool(first), 32, activation="RELU6")
    x = net.conv2d(net.max_pool(second), 32, activation="RELU6")
    x = net.conv2d(net.concat([second, net.transpose_conv(x, 32, (2, 2), activation="RELU6")]), 32, activation="RELU6")
    x = net.conv2d(net.concat([first, net.transpose_conv(x, 16, (2, 2), activation="RELU6")]), 16, activation="RELU6")
    return [net.conv2d(x, 2, (1, 1))]


def _unet_cropped(net: NetworkBuilder) -> list[TensorHandle]:
    first = net.conv2d(net.input((1, 60, 60, 1), "image"), 16, padding="VALID", activation="RELU6")
    x = net.conv2d(net.max_pool(first), 32, padding="VALID", activation="RELU6")
    up = net.transpose_conv(net.conv2d(x, 32, padding="VALID", activation="RELU6"), 16, (2, 2), activation="RELU6")
    edge = (first.shape[1] - up.shape[1]) // 2
    crop = net.slice(first, (0, edge, edge, 0), (1, up.shape[1], up.shape[2], 16))
    return [net.conv2d(net.conv2d(net.concat([crop, up]), 16, padding="VALID", activation="RELU"), 2, (1, 1))]


def _scaled_by_its_pool(net: NetworkBuilder) -> list[TensorHandle]:
    """A small map is enlarged, pooled as a whole, and scaled by the pool's result.

    Between the two it may be recomputed from the small map.
    """
    x = net.conv2d(net.input((1, 32, 32, 3), "image"), 16, strides=(2, 2), activation="RELU")
    x = net.conv2d(net.conv2d(net.conv2d(x, 32), 32, (5, 5), activation="RELU"), 8, (1, 1))
    wide = net.conv2d(net.resize_nearest(x), 32, (1, 1), activation="RELU")
    gate = net.conv2d(net.average_pool(wide), 8, (1, 1), activation="RELU")
    gate = net.conv2d(net.conv2d(gate, 16, (1, 1), activation="RELU"), 32, (1, 1))
    return [net.conv2d(net.multiply(wide, net.logistic(gate)), 2)]


def _espcn(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.tanh(net.conv2d(net.input((1, 40, 40, 1), "image"), 32, (5, 5)))
    x = net.tanh(net.conv2d(x, 16))
    return [net.depth_to_space(net.conv2d(x, 4))]


def _fsrcnn(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.prelu(net.conv2d(net.input((1, 32, 32, 1), "image"), 24, (5, 5)))
    x = net.prelu(net.conv2d(x, 8, (1, 1)))
    x = net.prelu(net.conv2d(net.prelu(net.conv2d(x, 8)), 24, (1, 1)))
    return [net.transpose_conv(x, 1, (8, 8))]


def _half_pixel_padded(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.resize_bilinear(net.conv2d(net.input((1, 15, 17, 8), "features"), 16, activation="RELU6"), half_pixel=True)
    return [net.conv2d(net.pad(x, 2, 1, 1, 2), 8, (1, 1), strides=(2, 2))]


def _labels(net: NetworkBuilder) -> list[TensorHandle]:
    """A segmenter in Keras: its argmax has 64 bits unless told otherwise."""
    x = net.conv2d(net.input((1, 48, 48, 3), "image"), 16, strides=(2, 2), activation="RELU")
    return [net.arg_max(net.resize_bilinear(net.conv2d(net.conv2d(x, 16, activation="RELU"), 6, (1, 1))), wide=True)]


def _ssd(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 64, 64, 3), "image"), 16, strides=(2, 2), activation="RELU6")
    boxes, scores = [], []
    for filters in (32, 48, 64):
        x = net.conv2d(net.depthwise(x, strides=(2, 2), activation="RELU6"), filters, (1, 1), activation="RELU6")
        count = x.shape[1] * x.shape[2] * 3
        boxes.append(net.reshape(net.conv2d(x, 12, (1, 1), activation="RELU6"), (1, count, 4)))
        scores.append(net.reshape(net.conv2d(x, 15, (1, 1), activation="RELU6"), (1, count, 5)))
    return [net.concat(boxes, 1), net.logistic(net.concat(scores, 1))]


def _anchors(net: NetworkBuilder) -> list[TensorHandle]:
    """Boxes, and the anchors that they are relative to: a constant that the exporter passes through."""
    x = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, strides=(2, 2), activation="RELU6")
    boxes = net.reshape(net.conv2d(x, 12, (1, 1)), (1, 432, 4))
    return [boxes, net.constant((432, 4), name="anchors")]


def _yolo(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 64, 64, 3), "image"), 16, strides=(2, 2))
    fine = net.leaky_relu(net.conv2d(net.leaky_relu(x), 32, strides=(2, 2)))
    coarse = net.conv2d(net.leaky_relu(net.conv2d(fine, 64, strides=(2, 2))), 32, (1, 1), activation="RELU6")
    up = net.resize_nearest(coarse)
    joined = net.concat([up, net.conv2d(fine, 32, (1, 1), activation="RELU6")])
    heads = [net.conv2d(map_, 18, (1, 1), activation="RELU6") for map_ in (joined, coarse)]
    flat = [net.reshape(head, (1, head.shape[1] * head.shape[2] * 3, 6)) for head in heads]
    return [net.logistic(net.concat(flat, 1))]


_of = partial(PortfolioNetwork, group="dense outputs")

NETWORKS = (
    _of("autoencoder", "convolutional autoencoder with transposed convolutions", _autoencoder),
    _of("dense_autoencoder", "anomaly detection: fully connected layers in a bottle's shape", _dense_autoencoder),
    _of("unet_padded", "U-Net with padded convolutions and 2x2 transposed ones", _unet_padded, sampled=True),
    _of("unet_cropped", "U-Net with valid convolutions: skips are cropped in height and width", _unet_cropped, sampled=True),
    _of("espcn", "ESPCN: super-resolution that ends in DEPTH_TO_SPACE", _espcn, sampled=True),
    _of("fsrcnn", "FSRCNN: PReLUs and an 8x8 transposed convolution at the end", _fsrcnn),
    _of("half_pixel_padded", "PyTorch's upsampled map, padded to another one's size", _half_pixel_padded),
    _of("labels_int64", "a segmenter that ends in Keras' argmax, whose labels have 64 bits", _labels),
    _of("ssd_heads", "SSD heads: boxes and scores of three maps, reshaped and concatenated", _ssd, sampled=True),
    _of("anchors", "boxes beside their anchors, an output that is a constant", _anchors, sampled=True),
    _of("scaled_by_its_pool", "an enlarged map scaled by what a pool over it says", _scaled_by_its_pool, sampled=True),
    _of("yolo_heads", "YOLO heads: leaky ReLU, upsampled map, two scales concatenated", _yolo),
)
