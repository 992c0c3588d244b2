"""Short names of a replay's layers and operators, for every table, picture and finding."""

from __future__ import annotations

from collections.abc import Sequence

from npu_testbed.replays.recurrent import recurrent_layers
from sim import NetworkReplay
from sim.views.layers import layers
from validation.short_names import name_end, short_names, told_apart

NAME_WIDTH = 40
"""Characters of a layer's name in a table; ``--json`` has the whole name."""


def shortened(name: str) -> str:
    """A layer's name for a table: up to the first ";", which joins the names of fused operators, and with its middle cut out.

    >>> shortened("model/relu;model/conv")
    'model/relu'
    >>> shortened("a" * 30 + "b" * 30)
    'aaaaaaaaaaaaaaaaaa...bbbbbbbbbbbbbbbbbbb'
    """
    return name_end(name.partition(";")[0], NAME_WIDTH)


def all_shortened(names: Sequence[str]) -> list[str]:
    """The names of all layers for a table: up to the first ";" if that is unique, and only the distinguishing part of a path.

    >>> all_shortened(["relu;conv_1", "relu;conv_2", "add;x", "net/conv_3/expand/Relu", "net/conv_3/project/BatchNorm"])
    ['relu;conv_1', 'relu;conv_2', 'add', 'expand', 'project']
    """
    heads = [name.partition(";")[0] for name in names]
    wholes: dict[str, set[str]] = {}
    for head, name in zip(heads, names, strict=True):
        wholes.setdefault(head, set()).add(name)
    return short_names(told_apart([head if len(wholes[head]) == 1 else name for head, name in zip(heads, names, strict=True)]), NAME_WIDTH)


def short_layers(network: NetworkReplay) -> dict[str, str]:
    """The layers of a replay, including the gates of recurrent ones, each with its name in tables."""
    names = [one.label for one in layers(network)]
    short = dict(zip(names, all_shortened(names), strict=True))
    gates = {row.layer: f"{short[one.layer]}{row.layer.removeprefix(one.layer)}" for one in recurrent_layers(network) for row in one.gates}
    return short | gates


def first_operator(mnemonics: str) -> str:
    """The first of a layer's operators, and the number of its other operators."""
    first, *others = mnemonics.split("+")
    return f"{first} and {len(others)} more" if len(others) > 1 else mnemonics
