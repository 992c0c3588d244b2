"""Random networks: each is drawn from its number, with sizes, blocks and operators that people combine."""

from __future__ import annotations

import re
from functools import partial

from npu_model.errors import InputError
from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.drawn import images, mixtures, series
from validation.portfolio.drawn.dice import Dice
from validation.portfolio.entry import LSTM, WIDE_PRODUCTS, PortfolioNetwork

GROUP = "drawn"

MOST = 1_000_000
"""Numbers end before this one."""

_RECIPES = (
    *(("classifier", images.classifier),) * 4,
    *(("unet", images.unet),) * 2,
    *(("detector", images.detector),) * 2,
    ("decoder", images.decoder),
    *(("temporal", series.temporal),) * 2,
    ("spectral", series.spectral),
    ("unrolled", series.unrolled),
    ("sequence operator", series.sequence_operator),
    ("attention", series.attention),
    ("vectors", series.vectors),
    *(("mixture", mixtures.mixture),) * 5,
)

_INT8_ALONE = frozenset({"sequence operator", "attention", "unrolled"})
"""Recipes with operators that TFLite has for int8 alone."""

_NAME = re.compile(r"drawn_(0|[1-9]\d*)")


def drawn_number(name: str) -> int | None:
    """The number in the name of a drawn network; None for another name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def drawn_network(number: int) -> PortfolioNetwork:
    """The network ``drawn_<number>``: the same on every call; InputError unless the number is from 0 to 999,999."""
    if not 0 <= number < MOST:
        raise InputError(f"A drawn network has a number from 0 to {MOST - 1:,}, not {number:,}: choose another one.")
    dice = Dice(number)
    kind, recipe = dice.pick(*_RECIPES)
    precision = "int8" if kind in _INT8_ALONE or dice.chance(70) else dice.pick("int16", "uint8")
    exception = LSTM if kind == "sequence operator" else WIDE_PRODUCTS if precision == "int16" else ""
    return PortfolioNetwork(f"drawn_{number}", f"drawn: {kind}, {precision}", partial(_draw, recipe, number), precision, exception, GROUP)


def drawn_networks(count: int, seed: int = 0) -> tuple[PortfolioNetwork, ...]:
    """``count`` networks, those with the numbers from ``seed`` on; InputError if there are fewer."""
    if count < 1:
        raise InputError(f"{count} networks were asked for: draw at least 1.")
    if not 0 <= seed <= MOST - count:
        raise InputError(f"{count:,} networks from number {seed:,} on do not lie within 0 to {MOST - 1:,}: choose another seed.")
    return tuple(map(drawn_network, range(seed, seed + count)))


def _draw(recipe: images.Recipe, number: int, net: NetworkBuilder) -> list[TensorHandle]:
    return recipe(net, Dice(number + MOST))
