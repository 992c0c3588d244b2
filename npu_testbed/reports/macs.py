"""Multiply-accumulates of a schedule's network, and those that it does a second time, in words and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascader.ethosu.network.network import Network


def share_again(macs: int, again: int) -> str:
    """The part of the multiply-accumulates that is done again, of those that are done once.

    >>> share_again(1008, 8), share_again(1000, 0)
    ('+0.8%', '0')
    """
    return f"{again / max(macs - again, 1):+.1%}" if again else "0"


def macs_text(network: Network) -> str:
    """A sentence on the multiply-accumulates of a network as it is scheduled."""
    if not network.macs_again:
        return f"It does {network.macs:,} multiply-accumulates, none of them twice."
    share = share_again(network.macs, network.macs_again)
    return f"It does {network.macs:,} multiply-accumulates, {network.macs_again:,} of them again ({share})."


def macs_json(network: Network) -> dict[str, Any]:
    """The same as values that JSON can hold."""
    return {"macs": network.macs, "macs_again": network.macs_again}
