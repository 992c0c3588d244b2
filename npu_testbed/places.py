"""Places: what lives outside the arena, and how much a schedule may do again."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct


class Places(Struct, frozen=True):
    """Homes as pairs WHAT=MEMORY, and the bound of multiply-accumulates as a multiple of the network's (None: the search's own)."""

    homes: tuple[str, ...] = ()
    recompute: Fraction | None = None


IN_ARENA = Places()
"""All in the arena, and the search's own bound."""
