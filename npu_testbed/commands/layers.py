"""Options of the tables of layers, which several commands print."""

from __future__ import annotations

from typing import Any, Protocol

from npu_model.errors import InputError

DEFAULT_MIN_PERCENT = 1.0
"""Share of the cycles, in per cent, below which layers fold into one row."""


class _OfLayers(Protocol):
    @property
    def json(self) -> bool: ...
    @property
    def min_percent(self) -> Any: ...


def min_percent(ask: _OfLayers) -> float:
    """The value of ``--min-percent``; InputError if it is used with a document, which always has every layer."""
    if ask.min_percent is not None and ask.json:
        raise InputError(f"--min-percent {ask.min_percent:g} cannot be combined with --json, which has every layer: drop one of them.")
    return DEFAULT_MIN_PERCENT if ask.min_percent is None else float(ask.min_percent)
