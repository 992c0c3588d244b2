"""Every operator that Vela 5.2 puts on the U55, between two convolutions, and as the first and the last of a network."""

from __future__ import annotations

from functools import partial

from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio.chains import CHAINS, as_image
from validation.portfolio.entry import Chain, PortfolioNetwork

BETWEEN, ENDS = "between convolutions", "first and last"

_SAMPLED = frozenset(
    {"softmax", "mean_keep", "pad", "slice_columns", "concat_columns", "resize_bilinear", "reverse_rows", "fully_connected"}
)


def _between(chain: Chain, net: NetworkBuilder) -> list[TensorHandle]:
    x = net.conv2d(net.input((1, 24, 24, 8), "image"), 16, activation="RELU6", name="before")
    return [net.conv2d(as_image(net, chain(net, x)), 8, name="behind")]


def _ends(chain: Chain, positive: bool, net: NetworkBuilder) -> list[TensorHandle]:  # noqa: FBT001  # the second of a table's columns
    first = as_image(net, chain(net, net.input((1, 24, 24, 16), "image", positive=positive)))
    return _last(chain, net, first)


def _last(chain: Chain, net: NetworkBuilder, x: TensorHandle) -> list[TensorHandle]:
    x = net.conv2d(net.conv2d(x, 24, activation="RELU6", name="conv_1"), 16, activation="RELU6", name="conv_2")
    return [chain(net, x)]


def _only_last(chain: Chain, net: NetworkBuilder) -> list[TensorHandle]:
    return _last(chain, net, net.input((1, 24, 24, 16), "image"))


def _networks(name: str) -> tuple[PortfolioNetwork, ...]:
    what = CHAINS[name]
    if what.only_last:
        return (PortfolioNetwork(f"{name}_at_end", f"{what.operator} last", partial(_only_last, what.chain), group=ENDS),)
    idiom = f"convolution, {what.operator}, convolution"
    between, ends = partial(_between, what.chain), partial(_ends, what.chain, what.positive)

    of = partial(PortfolioNetwork, exception=what.exception, unverifiable=what.unverifiable)
    return (
        of(f"conv_{name}_conv", idiom, between, group=BETWEEN, sampled=name in _SAMPLED),
        of(f"{name}_at_ends", f"{what.operator} first and last", ends, group=ENDS),
    )


_ALL = tuple(network for name in CHAINS for network in _networks(name))

NETWORKS = tuple(network for group in (BETWEEN, ENDS) for network in _ALL if network.group == group)
