"""Multiply-accumulates of a network as it runs, including the recomputed ones, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_model.compiled.network import CompiledNetwork


def recomputed_share(macs: int, again: int) -> str:
    """The recomputed multiply-accumulates as a share of the network's own.

    >>> recomputed_share(1008, 8), recomputed_share(1000, 0)
    ('+0.8%', '0')
    """
    return f"{again / max(macs - again, 1):+.1%}" if again else "0"


def macs_text(compiled: CompiledNetwork, again: int) -> str:
    """A sentence on the multiply-accumulates of a network as it runs, and on the recomputed ones (``again``)."""
    macs = macs_of(compiled)
    if not again:
        return f"It does {macs:,} multiply-accumulates, none of them recomputed."
    return f"It does {macs:,} multiply-accumulates, {again:,} of them recomputed ({recomputed_share(macs, again)})."


def macs_of(compiled: CompiledNetwork) -> int:
    """Multiply-accumulates of all kernels that run. Transfers do none, and rows that are not read are not computed."""
    return sum(kernel.macs for program in compiled.programs for kernel in program.kernels)
