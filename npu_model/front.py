"""Fronts of packages: names that are imported from their modules when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["front"]


def front(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: each name comes from its module (the keys, in full), which is imported then.

    >>> front("shapes", {"npu_model.shapes": ["ceil_div"]})("ceil_div")(7, 2)
    4
    """
    place = {name: module for module, names in modules.items() for name in names}

    def found(name: str) -> Any:
        if name not in place:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(place[name]), name)

    return found
