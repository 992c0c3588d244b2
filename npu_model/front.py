"""Imports on demand: the names of a package's front, and modules that most runs do not need.

Both are plain imports in a ``with`` block, as type checkers and the import contracts see them. Only this module delays imports.

A block replaces ``builtins.__import__``. No other hook delays ``from MODULE import NAME``: :class:`importlib.util.LazyLoader` runs a module
at the first of its names, which that statement is. Python 3.15 has lazy imports of its own (PEP 810), which replace this module once no
older version is supported.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib import import_module
from threading import get_ident
from typing import Any


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


class _Modules:
    """The stand-in of a package: each of its names is the stand-in of a module."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> _Later:
        return _Later(f"{self._package}.{name}")


class _Block:
    """A block whose import statements load nothing. Those of other threads load as always, meanwhile."""

    def __enter__(self) -> Any:
        self._thread, self._plain = get_ident(), vars(builtins)["__import__"]
        vars(builtins)["__import__"] = self._import

    def __exit__(self, *_: object) -> None:
        # Blocks of two threads may overlap. If the other block puts our function back, that passes everything on.
        self._thread, vars(builtins)["__import__"] = 0, self._plain

    def _import(self, name: str, *terms: Any, **named: Any) -> Any:
        return self._plain(name, *terms, **named) if get_ident() != self._thread else self._stand_in(name, *terms)

    def _stand_in(self, name: str, _own: dict[str, Any], _inner: object, names: tuple[str, ...] | None, _level: int) -> Any:
        """The names that an import statement of the module with the names ``own`` gets."""
        return _Modules(name) if names else _Later(name)


class _Front(_Block):
    """The front of a package: afterwards the package has none of the block's names itself."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}

    def __enter__(self) -> Callable[[str], Any]:
        super().__enter__()
        return self._found

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        for name in self._modules:
            del self._own[name]

    def _stand_in(self, name: str, own: dict[str, Any], _inner: object, names: tuple[str, ...] | None, _level: int) -> Any:
        self._own = own
        self._modules |= dict.fromkeys(names or (), name)
        return _Modules(name)

    def _found(self, name: str) -> Any:
        if name not in self._modules:
            raise AttributeError(f"module {self._own['__name__']!r} has no attribute {name!r}")
        return getattr(import_module(self._modules[name]), name)


def front() -> _Front:
    """A block that imports the names of a package from its modules, each when it is asked for; it makes the package's ``__getattr__``.

    >>> with front() as found:
    ...     from npu_model.shapes import ceil_div
    >>> found("ceil_div")(7, 2)
    4
    """
    return _Front()


def later() -> _Block:
    """A block that imports modules that most runs do not need, or that are imported while Vela runs.

    >>> with later():
    ...     from npu_model import shapes
    >>> shapes
    later('npu_model.shapes')
    >>> shapes.ceil_div(7, 2)
    4
    """
    return _Block()
