"""The portfolio: small networks as people have them, built and seeded here, on which our schedules are held against Vela's."""

from __future__ import annotations

from npu_model.errors import InputError, did_you_mean
from validation.portfolio import (
    classifiers,
    dense_outputs,
    far_ends,
    formats,
    long_reaches,
    named_figures,
    on_cpu,
    operators,
    sequences,
    shapes,
    states,
)
from validation.portfolio.drawn import drawn_network, drawn_networks, drawn_number
from validation.portfolio.entry import PortfolioNetwork

__all__ = ["NETWORKS", "PortfolioNetwork", "build", "drawn_network", "drawn_networks", "drawn_number", "portfolio_network"]

NETWORKS: tuple[PortfolioNetwork, ...] = (
    *named_figures.NETWORKS,
    *classifiers.NETWORKS,
    *dense_outputs.NETWORKS,
    *sequences.NETWORKS,
    *states.NETWORKS,
    *on_cpu.NETWORKS,
    *shapes.NETWORKS,
    *long_reaches.NETWORKS,
    *far_ends.NETWORKS,
    *formats.NETWORKS,
    *operators.NETWORKS,
)
"""All networks, group by group."""

_BY_NAME = {network.name: network for network in NETWORKS}


def portfolio_network(name: str) -> PortfolioNetwork:
    """The network called ``name``, without the ``portfolio:`` prefix of the command line; InputError if there is none.

    ``drawn_<number>`` is drawn then and there.
    """
    number = drawn_number(name)
    if number is not None:
        return drawn_network(number)
    if name not in _BY_NAME:
        raise InputError(
            f"The portfolio has no network {name!r}{did_you_mean(name, [network.name for network in NETWORKS])}: "
            f"`npu-testbed validate portfolio --list` names all {len(NETWORKS)}."
        )
    return _BY_NAME[name]


def build(name: str) -> bytes:
    """The .tflite file of the portfolio's network ``name``: the same bytes at every call, on every platform."""
    return portfolio_network(name).build()
