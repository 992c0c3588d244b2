"""Layers with windows, sums and concatenations that tests of tiles and of stripes cut."""

from __future__ import annotations

from collections.abc import Callable

from validation.builder import NetworkBuilder, TensorHandle

Layers = Callable[[NetworkBuilder, TensorHandle], list[TensorHandle]]


def chain(net: NetworkBuilder, x: TensorHandle) -> list[TensorHandle]:
    """Windows of all kinds, with strides and odd extents."""
    x = net.conv2d(x, 12, (3, 4), strides=(2, 1), activation="RELU")
    x = net.depthwise(x, (3, 3), activation="RELU6")
    x = net.conv2d(x, 20, (1, 5), strides=(1, 2), padding="VALID")
    return [net.max_pool(net.average_pool(x, (3, 2), strides=(1, 1), padding="VALID"), (2, 2), strides=(2, 2))]


def residual(net: NetworkBuilder, x: TensorHandle) -> list[TensorHandle]:
    """A sum with what was before two convolutions, its negative part scaled."""
    x = net.conv2d(x, 16, activation="RELU")
    return [net.leaky_relu(net.add(x, net.conv2d(net.conv2d(x, 24, activation="RELU"), 16)))]


def joined(net: NetworkBuilder, x: TensorHandle) -> list[TensorHandle]:
    """A concatenation of two branches along channels that fill no bricks, and of rows."""
    wide = net.concat([net.conv2d(x, 12, activation="RELU6"), net.conv2d(x, 7, (5, 5), activation="RELU6")])
    return [net.conv2d(net.concat([wide, net.max_pool(wide, (3, 3), strides=(1, 1), padding="SAME")], 1), 8)]


LAYERS: dict[str, Layers] = {"chain": chain, "residual": residual, "joined": joined}
