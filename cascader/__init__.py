"""The cascading scheduler: graph, allocation, Schedule and its lowering to a Program. ``schedule`` and ``frontier`` are its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front

if TYPE_CHECKING:
    from cascader.verbs import Settings, frontier, schedule

__all__ = ["Settings", "frontier", "schedule"]

# A replay alone needs no search.
__getattr__ = front(__name__, {"cascader.verbs": __all__})
