"""Values: frozen dataclasses with slots, made in a fifth of the time that :mod:`dataclasses` takes.

That module compiles six functions for each class, which took a tenth of a short command. Here ``__init__`` is compiled, and the others are
functions of the fields. A value does what its dataclass does, and :func:`dataclasses.fields`, ``replace`` and ``asdict`` take it as one.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")


def _getter(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """The function that gives the fields of those names as a tuple."""
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda made: (one(made),)
    return attrgetter(*names) if names else lambda _made: ()


def _refuse_to_set(_self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _init(cls: type, fields: Sequence[Field[Any]]) -> Callable[..., None]:
    """``__init__``, which stores each argument in its slot and then calls ``__post_init__`` if there is one."""
    known: dict[str, Any] = {"_MISSING": MISSING}
    words, lines = ["self"], list[str]()
    for number, field in enumerate(fields):
        if field.kw_only:
            raise TypeError(f"Field {field.name!r} of {cls.__name__} is for keywords only: arguments are by place here.")
        known[f"_set{number}"] = getattr(cls, field.name).__set__
        default, stored = "", field.name
        if field.default_factory is not MISSING:
            known[f"_made{number}"] = field.default_factory
            default, stored = "=_MISSING", f"_made{number}() if {field.name} is _MISSING else {field.name}"
        elif field.default is not MISSING:
            known[f"_default{number}"] = field.default
            default = f"=_default{number}"
        if field.init:
            words.append(f"{field.name}{default}")
            lines.append(f"  _set{number}(self, {stored})\n")
        elif default:
            raise TypeError(f"Field {field.name!r} of {cls.__name__} has a default and is no argument: store it in __post_init__.")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()\n")
    text = f"def made({', '.join(known)}):\n def __init__({', '.join(words)}):\n{''.join(lines) or '  pass'}\n return __init__"
    defined: dict[str, Any] = {}
    exec(text, sys.modules[cls.__module__].__dict__, defined)  # noqa: S102  # the text is of names of fields alone
    made: Callable[..., None] = defined["made"](**known)
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _compared(cls: type, fields: Sequence[Field[Any]]) -> dict[str, Callable[..., Any]]:
    """``__eq__`` and ``__hash__`` of the fields."""
    compared = _getter([field.name for field in fields if field.compare])
    hashed = _getter([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

    def equal(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def number(self: object) -> int:
        return hash(hashed(self))

    own = vars(cls).get("__hash__")
    return {"__eq__": equal} if own is not None else {"__eq__": equal, "__hash__": number}


def _stored(cls: type, fields: Sequence[Field[Any]]) -> dict[str, Callable[..., Any]]:
    """``__getstate__`` and ``__setstate__``, by which a value with slots is copied and sent."""
    setters, every = [getattr(cls, field.name).__set__ for field in fields], _getter([field.name for field in fields])

    def state(self: object) -> tuple[object, ...]:
        return every(self)

    def restore(self: object, state: Sequence[object]) -> None:
        for store, one in zip(setters, state, strict=True):
            store(self, one)

    return {"__getstate__": state, "__setstate__": restore}


def _value(cls: type[T], *, eq: bool) -> type[T]:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    fields = dataclasses.fields(made)
    functions = {"__init__": _init(made, fields), "__repr__": _shown, "__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    functions |= _stored(made, fields) | (_compared(made, fields) if eq else {})
    for name, function in functions.items():
        if vars(made).get(name) is None:
            setattr(made, name, function)
    return made  # type: ignore[no-any-return]  # the class with slots


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **terms: bool) -> Any:
        """:func:`dataclasses.dataclass`, which makes whatever is no frozen dataclass with slots."""
        eq = terms.get("eq", True)
        if cls is not None or terms not in ({"frozen": True, "slots": True}, {"frozen": True, "slots": True, "eq": eq}):
            return dataclasses.dataclass(cls, **terms)
        return lambda one: _value(one, eq=eq)
