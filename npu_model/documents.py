"""Values as JSON and back: msgspec writes and reads them by the types of their fields; a wrong value is refused in one sentence."""

from __future__ import annotations

import re
import types
from enum import Enum
from fractions import Fraction
from numbers import Rational
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, ValidationError
from msgspec.structs import fields

from npu_model.errors import InputError, did_you_mean
from npu_model.front import later
from npu_model.printable import printable, shown

with later():
    import json  # few files have names that msgspec cannot write

T = TypeVar("T")

MAX_INTEGER = 1 << 48
"""Limit of every number: feature-map strides have 40 bits in the registers, all other numbers have fewer."""

_RATIO = re.compile(r"\d{1,40}(/[1-9]\d{0,39})?", re.ASCII)
_STEP = re.compile(r"\.([^.`\[\]]+)|\[(\d+|\.\.\.)\]")
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
    try:
        return msgspec.json.decode(encoded(value))
    except UnicodeEncodeError:
        # The name of a file that is not UTF-8 has no JSON text by msgspec.
        return json.loads(json.dumps(msgspec.to_builtins(value, enc_hook=_text)))


def _read(kind: type, given: object) -> object:
    if kind in (Fraction, Rational) and isinstance(given, str) and _RATIO.fullmatch(given):
        return Fraction(given)
    if kind is object or (kind is Rational and type(given) is int):
        return given
    raise ValueError("wrong")


def typed(kind: type[T], given: object, file: str = "The document", where: str = "", remedy: str = "write the file again") -> T:
    """The value of type ``kind`` for some JSON or TOML values.

    InputError names the first value of another type in ``file``, with its path, which begins with ``where``, and the ``remedy``. A kind
    that forbids unknown keys names one; elsewhere they are ignored, and a caller that minds compares with :func:`plain`. The values of a
    field of type ``object`` stay as they are.
    """
    try:
        return msgspec.convert(given, kind, dec_hook=_read)
    except ValidationError as error:
        spot = _spot(kind, given, str(error).rpartition(" - at `$")[2] if " - at `$" in str(error) else "")
        found, wanted, near = spot.given, spot.wanted, ""
        if missing := _MISSING.search(str(error)):
            wanted = f"the key {missing[1]!r}"
        elif "contains unknown field" in str(error) and isinstance(found, dict):
            keys = tuple(field.encode_name for one in spot.kinds if issubclass(one, Struct) for field in fields(one))
            found, wanted = next(key for key in found if key not in keys), f"one of the keys {', '.join(keys)}"
            near = did_you_mean(found, keys)
        found = sorted(found) if isinstance(found, dict) else found
        place = (where + spot.path).lstrip(".") or "its top"
        raise InputError(f"{file} has {shown(found)}{near} at {place} where {wanted} is needed: {remedy}.") from None


class _Spot(Struct):
    """The spot of a fault: its path, its value, the types that the value may have, and the types of the value around it."""

    path: str
    given: Any
    kinds: tuple[Any, ...]
    around: tuple[Any, ...] = ()

    @property
    def wanted(self) -> str:
        """The needed type, for a message."""
        return " or ".join(map(_phrase, self.kinds)) if self.kinds else f"one of {', '.join(_tags(self.around))}"


def _spot(kind: Any, given: Any, path: str) -> _Spot:
    """The spot that msgspec's ``path`` of an error means. It does not name keys of tables of any keys: the first wrong one is taken."""
    spot = _Spot("", given, _choices(kind))
    for name, index in _STEP.findall(path):
        around, now = spot.kinds, spot.given
        key = int(index) if index.isdecimal() else name or _wrong_key(around, now)
        kinds = tuple(found for one in around for found in _inside(one, key))
        spot = _Spot(f"{spot.path}[{key}]" if index.isdecimal() else f"{spot.path}.{printable(str(key))}", _at(now, key), kinds, around)
        if not kinds:
            break
    return spot


def _wrong_key(kinds: tuple[Any, ...], given: dict[str, Any]) -> str:
    """The first key of a table of any keys whose value is of no right type."""
    return next(key for key, value in given.items() if not any(_fits(one, value) for kind in kinds for one in _inside(kind, key)))


def _fits(kind: Any, given: object) -> bool:
    try:
        msgspec.convert(given, kind, dec_hook=_read)
    except ValidationError:
        return False
    return True


def _at(given: Any, key: str | int) -> object:
    return given.get(key) if isinstance(given, dict) else given[key]


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _tags(kinds: tuple[Any, ...]) -> list[str]:
    configs = [one.__struct_config__ for one in kinds if isinstance(one, type) and issubclass(one, Struct)]
    return [str(config.tag) for config in configs if config.tag is not None]


def _inside(kind: Any, key: str | int) -> tuple[Any, ...]:
    """The types that a field or an item of a type may have; empty if there is no such field."""
    if get_origin(kind) is Annotated:
        return _inside(get_args(kind)[0], key)
    if get_origin(kind) is tuple and isinstance(key, int):
        items = get_args(kind)
        return _choices(items[0] if items[-1] is Ellipsis else items[min(key, len(items) - 1)])
    if get_origin(kind) is dict:
        return _choices(get_args(kind)[1])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return next((_choices(field.type) for field in fields(kind) if field.encode_name == key), ())
    return ()


def _phrase(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _bounded(*get_args(kind))
    if kind in _WANTED:
        return _WANTED[kind]
    items = get_args(kind)
    if get_origin(kind) is tuple:
        return "a list" if items[-1] is Ellipsis else f"a list of {len(items)} items"
    if get_origin(kind) is dict:
        return "a table"
    choices = items if get_origin(kind) is Literal else [member.value for member in kind] if issubclass(kind, Enum) else ()
    return f"one of {', '.join(map(str, choices))}" if choices else f"an object ({kind.__name__})"


def _bounded(kind: Any, meta: Meta) -> str:
    """A type with bounds, for a message."""
    if meta.min_length:
        return f"{_phrase(kind)} of {meta.min_length} or more"
    if kind not in (int, float):
        return _phrase(kind)
    what = f"a multiple of {meta.multiple_of}" if meta.multiple_of else "an integer" if kind is int else "a number"
    return f"{what} above {meta.gt}" if meta.gt is not None else f"{what} from {meta.ge} to {meta.le}"
