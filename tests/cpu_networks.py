"""Networks that an NPU cannot take whole."""

from __future__ import annotations

from validation.builder import NetworkBuilder


def cpu_split_network() -> bytes:
    """Convolution, DEPTH_TO_SPACE, convolution: Vela leaves the middle on the CPU, between two NPU subgraphs."""
    net = NetworkBuilder("cpu_split")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, activation="RELU", name="before")
    x = net.depth_to_space(x, name="on_cpu")
    return net.finish([net.conv2d(x, 8, name="after")])


def two_ends_network() -> bytes:
    """Two inputs of one NPU subgraph; the output of another, behind a CPU operator, is handed on at the place of the second input."""
    net = NetworkBuilder("two_ends")
    first, second = net.input((1, 16, 16, 8), "first"), net.input((1, 32, 32, 4), "second")
    x = net.depth_to_space(net.conv2d(first, 16, activation="RELU", name="before"), name="on_cpu")
    return net.finish([net.add(x, net.conv2d(second, 4, name="beside"))])


def float_network() -> bytes:
    """``tiny_conv`` in float32: a valid network that no Ethos-U takes."""
    net = NetworkBuilder("float_network", "float32")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, (1, 1), activation="RELU", name="pointwise")
    return net.finish([net.conv2d(x, 16, name="full")])
