"""Names that are imported from their modules on demand: fronts of packages, and stand-ins of single modules.

Only this module delays imports. The real import stands next to it under ``TYPE_CHECKING``, where the type checker and the import contracts
see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["front", "later"]


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


class _Later:
    """The stand-in of a module, which is imported at the first of its names; several threads may ask at once."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # A tool that looks at all objects of a module asks for such names. That must import nothing.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._module), name)

    def __repr__(self) -> str:
        return f"later({self._module!r})"


def later(module: str) -> Any:
    """A stand-in for a module (its name in full) that most runs do not need, or that is imported while Vela runs.

    >>> shapes = later("npu_model.shapes")
    >>> shapes.ceil_div(7, 2)
    4
    """
    return _Later(module)
