"""PortfolioNetwork: one network of the portfolio with its meaning, and the chains from which many of them are built."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from validation.builder import NetworkBuilder, TensorHandle

Chain = Callable[[NetworkBuilder, TensorHandle], TensorHandle]
"""Adds operators after a tensor and returns the last output."""

Draw = Callable[[NetworkBuilder], list[TensorHandle]]
"""Draws a whole network and returns its outputs."""


LSTM = "Vela's kernels of UNIDIRECTIONAL_SEQUENCE_LSTM are not LiteRT's to the last bit (docs/exactness.md)"
"""Why outputs after an LSTM operator may differ from LiteRT's."""

WIDE_PRODUCTS = "16-bit fully connected layers have 16-bit multipliers on the NPU (docs/exactness.md)"
"""Why outputs after a fully connected layer of 16-bit activations may differ."""


class PortfolioNetwork(Struct, frozen=True):
    """One network: ``draw`` makes it with a builder of its ``precision``, ``idiom`` says in a phrase where people meet it.

    A sample and a page are ordered by ``group``. ``exception`` says why its outputs may differ from LiteRT's, "" if they may not;
    ``unverifiable`` why LiteRT cannot run it. ``homes`` are the homes of its tensors outside the arena, as pairs WHAT=MEMORY. It is
    examined with them unless others are given. ``sampled`` marks the networks that represent the others if time is short.
    """

    name: str
    idiom: str
    draw: Draw
    precision: str = "int8"
    exception: str = ""
    group: str = ""
    sampled: bool = False
    unverifiable: str = ""
    homes: tuple[str, ...] = ()

    def build(self) -> bytes:
        """The .tflite file: the same bytes at every call, on every platform."""
        net = NetworkBuilder(self.name, self.precision)
        return net.finish(self.draw(net))
