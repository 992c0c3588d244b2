"""Networks with state outside tensors, with computed shapes, and cut by tools: each compiles with Vela's command line."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.entry import PortfolioNetwork


def _wake_word(net: NetworkBuilder) -> list[TensorHandle]:
    """A streaming wake word: two rows of features an inference, and three layers that remember the rows before."""
    x = net.remembered(net.input((1, 2, 1, 40), "features"), 3, name="stream_1")
    x = net.conv2d(x, 32, (5, 1), padding="VALID", activation="RELU", name="conv_1")
    x = net.depthwise(net.remembered(x, 6, name="stream_2"), (7, 1), padding="VALID", name="depthwise")
    x = net.conv2d(x, 48, (1, 1), activation="RELU", name="conv_2")
    return [net.logistic(net.fully_connected(net.flatten(net.remembered(x, 11, name="stream_3")), 1, name="logits"))]


def _remembered_image(net: NetworkBuilder) -> list[TensorHandle]:
    """Rows of a line camera: a state between layers that a cascade cuts."""
    x = net.conv2d(net.input((1, 8, 48, 4), "lines"), 16, activation="RELU6", name="conv_1")
    x = net.conv2d(net.remembered(x, 4, name="stream"), 16, activation="RELU6", name="conv_2")
    return [net.conv2d(x, 8, name="conv_3")]


def _widened(net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 24, 24, 8), "image"), 16, activation="RELU6", name="conv_1")
    return [net.conv2d(net.widened(x, 4, name="widened"), 8, name="conv_2")]


def _cut(net: NetworkBuilder) -> list[TensorHandle]:
    """Overlapping rows of a padded image, padded by nothing and joined again, as tools cut a network into slices."""
    padded = net.pad(net.input((1, 40, 48, 2), "image"), 1, 1, 1, 1, name="pad")
    parts = [net.slice(padded, (0, first, 0, 0), (1, 24, 50, 2), name=f"slice_{first}") for first in (0, 18)]
    nothing = [net.pad_all(part, ((0, 0),) * 4, name=f"nothing_{number}") for number, part in enumerate(parts)]
    return [net.conv2d(net.concat(nothing, 1, name="joined"), 8, padding="VALID", name="conv")]


_of = partial(PortfolioNetwork, group="states and chains")

NETWORKS = (
    _of("stream_wake_word", "a streaming wake word: three layers keep rows in resource variables", _wake_word, sampled=True),
    _of("stream_lines", "a line camera whose second layer remembers four rows, a resource variable", _remembered_image),
    _of("shape_chain", "columns of zeros of a shape that SHAPE, STRIDED_SLICE and PACK work out", _widened, sampled=True),
    _of("cut_rows", "overlapping rows, padded by nothing and joined", _cut),
)
