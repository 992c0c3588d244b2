"""The cascading scheduler: graph, allocation, Schedule and its lowering to a Program. ``schedule`` and ``frontier`` are its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascader.verbs import How, frontier, schedule

__all__ = ["How", "frontier", "schedule"]


def __getattr__(name: str) -> Any:
    """The verbs, imported when they are first asked for: a replay alone needs no search."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cascader import verbs  # noqa: PLC0415  # as said above

    return getattr(verbs, name)
