"""Values as JSON and back: msgspec writes and reads them by the types of their fields; a wrong value is refused in one sentence."""

from __future__ import annotations

import re
import types
from enum import Enum
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, ValidationError
from msgspec.structs import fields

from npu_model.errors import InputError
from npu_model.printable import shown

__all__ = ["MAX_INTEGER", "encoded", "plain", "typed"]

T = TypeVar("T")

MAX_INTEGER = 1 << 48
"""Limit of every number: feature-map strides have 40 bits in the registers, all other numbers have fewer."""

_RATIO = re.compile(r"\d{1,40}(/[1-9]\d{0,39})?", re.ASCII)
_STEP = re.compile(r"\.([^.`\[\]]+)|\[(\d+)\]")
_MISSING = re.compile(r"missing required field `(\w+)`")
_WANTED = {int: f"an integer between -{MAX_INTEGER} and {MAX_INTEGER}", bool: "true or false", float: "a number", str: "a text"}
_WANTED |= {
    bytes: "base64 text",
    Fraction: "the text of a ratio such as 8 or 8/3",
    type(None): "null",
    Rational: "a whole number or the text of a ratio such as 8/3",
}


def _text(value: object) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"A {type(value).__name__} has no JSON form.")


def encoded(value: object) -> bytes:
    """The JSON text of a value: every field by its name, an enum's member by its value, bytes as base64, a ratio as text such as 8/3."""
    return msgspec.json.encode(value, enc_hook=_text)


def plain(value: object) -> Any:
    """The lists, objects and scalars of a value's JSON text.

    >>> from npu_model.shapes import Shape3D
    >>> plain((Shape3D(1, 2, 3), Fraction(8, 3)))
    [{'height': 1, 'width': 2, 'depth': 3}, '8/3']
    """
    return msgspec.json.decode(encoded(value))


def _read(kind: type, given: object) -> object:
    if kind in (Fraction, Rational) and isinstance(given, str) and _RATIO.fullmatch(given):
        return Fraction(given)
    if kind is object or (kind is Rational and type(given) is int):
        return given
    raise ValueError("wrong")


def typed(kind: type[T], given: object, file: str = "The document", where: str = "") -> T:
    """The value of type ``kind`` for some JSON values.

    InputError names the first value of another type in ``file``, with its path, which begins with ``where``. Unknown keys are ignored; a
    caller that minds compares with :func:`plain`. The values of a field of type ``object`` stay as they are.
    """
    try:
        return msgspec.convert(given, kind, dec_hook=_read)
    except ValidationError as error:
        path = str(error).rpartition(" - at `$")[2] if " - at `$" in str(error) else ""
        keys: list[str | int] = [int(index) if index else name for name, index in _STEP.findall(path)]
        missing = _MISSING.search(str(error))
        wanted = f"the key {missing[1]!r}" if missing else _wanted(kind, keys)
        place = (where + path.rstrip("`")).lstrip(".") or "its top"
        raise InputError(f"{file} has {shown(_at(given, keys))} at {place} where {wanted} is needed: write the file again.") from None


def _at(given: Any, keys: list[str | int]) -> object:
    for key in keys:
        given = given.get(key) if isinstance(given, dict) else given[key]
    return sorted(given) if isinstance(given, dict) else given


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _tags(kinds: tuple[Any, ...]) -> list[str]:
    configs = [one.__struct_config__ for one in kinds if isinstance(one, type) and issubclass(one, Struct)]
    return [str(config.tag) for config in configs if config.tag is not None]


def _inside(kind: Any, key: str | int) -> tuple[Any, ...]:
    """The types that a field or an item of a type may have; empty if there is no such field."""
    if get_origin(kind) is tuple and isinstance(key, int):
        items = get_args(kind)
        return _choices(items[0] if items[-1] is Ellipsis else items[min(key, len(items) - 1)])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return next((_choices(field.type) for field in fields(kind) if field.name == key), ())
    return ()


def _wanted(kind: Any, keys: list[str | int]) -> str:
    """The JSON type that a field or an item needs, for a message."""
    kinds = _choices(kind)
    for key in keys:
        outer, kinds = kinds, tuple(found for one in kinds for found in _inside(one, key))
        if not kinds:
            return f"one of {', '.join(_tags(outer))}"
    return " or ".join(map(_phrase, kinds))


def _phrase(kind: Any) -> str:
    if kind in _WANTED:
        return _WANTED[kind]
    if get_origin(kind) is tuple:
        items = get_args(kind)
        return "a list" if items[-1] is Ellipsis else f"a list of {len(items)} items"
    if issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    return f"an object ({kind.__name__})"
