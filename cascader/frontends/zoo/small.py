"""Networks of a few operators, for tests and first steps."""

from __future__ import annotations

from cascader.frontends.zoo.builder import NetworkBuilder


def tiny_conv() -> bytes:
    """Three convolutions on 16x16x8: pointwise, 3x3, and 3x3 with stride 2."""
    net = NetworkBuilder("tiny_conv")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, (1, 1), activation="RELU", name="pointwise")
    x = net.conv2d(x, 16, activation="RELU", name="full")
    return net.finish([net.conv2d(x, 32, strides=(2, 2), name="strided")])


def tiny_residual() -> bytes:
    """One residual block on 24x24x3: stem, two convolutions beside the identity, add, average pool."""
    net = NetworkBuilder("tiny_residual")
    stem = net.conv2d(net.input((1, 24, 24, 3), "image"), 16, activation="RELU", name="stem")
    x = net.depthwise(stem, activation="RELU", name="depthwise")
    x = net.add(stem, net.conv2d(x, 16, name="conv"), activation="RELU", name="add")
    return net.finish([net.average_pool(x, (2, 2), name="pool")])
