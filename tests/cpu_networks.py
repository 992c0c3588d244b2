"""Two networks that an NPU cannot take whole."""

from __future__ import annotations

from validation.portfolio.builder import PortfolioBuilder
from validation.zoo import NetworkBuilder


def cpu_split_network() -> bytes:
    """Convolution, DEPTH_TO_SPACE, convolution: Vela leaves the middle on the CPU, between two NPU subgraphs."""
    net = PortfolioBuilder("cpu_split")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, activation="RELU", name="before")
    x = net.depth_to_space(x, name="on_cpu")
    return net.finish([net.conv2d(x, 8, name="after")])


def float_network() -> bytes:
    """``tiny_conv`` in float32: a valid network that no Ethos-U takes."""
    net = NetworkBuilder("float_network", "float32")
    x = net.conv2d(net.input((1, 16, 16, 8), "image"), 16, (1, 1), activation="RELU", name="pointwise")
    return net.finish([net.conv2d(x, 16, name="full")])
