"""Frozen values to JSON and back, with every type checked on the way in.

A value becomes an object without the fields that have their default value. An enum becomes its member's name, a tuple an
array, bytes the base64 text of their zlib compression, a ratio its text. The type annotations are the schema.
"""

from __future__ import annotations

import base64
import binascii
import re
import types
import zlib
from collections.abc import Callable, Mapping
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from cascader.ethosu.network.network import CpuPart, EthosuPart
from npu_model.errors import InputError
from npu_model.printable import shown

MAX_INTEGER = 1 << 48
"""Bound of every number: feature-map strides have 40 bits in the registers, all else has fewer."""

MAX_ITEMS = 1 << 20
"""Bound of the length of a list."""

MAX_TEXT = 1 << 12
"""Bound of the length of a name."""

MAX_BYTES = 1 << 28
"""Bound of a decompressed blob: 256 MiB, above any memory-mapped flash of an Ethos-U55 system."""

_RATIO = re.compile(r"\d{1,40}(/[1-9]\d{0,39})?", re.ASCII)

VARIANTS: dict[str, type] = {"npu": EthosuPart, "cpu": CpuPart}
"""Types that a field annotated ``object`` (the payload of a Part) may hold, by the key that stands for each."""


Known = Mapping[int, Any]
"""JSON values that are known already, by the identity of what they stand for."""

_NONE_KNOWN: Known = MappingProxyType({})


def to_plain(value: object, known: Known = _NONE_KNOWN) -> Any:
    """The JSON value of a frozen value; ``known`` are those of some of its fields, which are not worked out again."""
    kind: Any = type(value)
    if kind is int or kind is str or value is None:
        return value
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    fields_of = _fields(kind)
    if fields_of is not None:
        return _object(value, fields_of, known)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return base64.b64encode(zlib.compress(value, 9)).decode("ascii")
    return str(value) if isinstance(value, Fraction) else value


class _Field(NamedTuple):
    """A field of a value: its type, and its default value (NODEFAULT if it has none)."""

    kind: Any
    default: Any


@cache
def _fields(kind: type) -> dict[str, _Field] | None:
    """The fields of a value by their names; None for other types."""
    if not issubclass(kind, Struct):
        return None
    return {field.name: _Field(field.type, field.default) for field in fields(kind)}


def _object(value: Any, fields_of: Mapping[str, _Field], known: Known) -> dict[str, Any]:
    plain = {}
    for name, field in fields_of.items():
        item = getattr(value, name)
        if field.default is not NODEFAULT and item == field.default:
            continue
        if field.kind is object:
            key = next((key for key, kind in VARIANTS.items() if isinstance(item, kind)), None)
            if key is None:
                raise InputError(f"A {type(item).__name__} cannot be written to a schedule file: {' and '.join(VARIANTS)} parts can.")
            plain[name] = {key: to_plain(item)}
        else:
            plain[name] = known[id(item)] if id(item) in known else to_plain(item)
    return plain


def _wrong(where: str, plain: object, wanted: str) -> InputError:
    return InputError(f"The schedule file has {shown(plain)} at {where or 'its top'} where {wanted} is needed: write the file again.")


_SCALARS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (lambda value: abs(value) < MAX_INTEGER, f"an integer between -{MAX_INTEGER} and {MAX_INTEGER}"),
    bool: (lambda _: True, "true or false"),
    float: (isfinite, "a finite number with a decimal point"),
    str: (lambda value: len(value) <= MAX_TEXT, f"a text of up to {MAX_TEXT} characters"),
}
"""Types that JSON has: what is asked of a value of the type, and what is wanted, for a sentence."""


def _scalar(kind: Any, plain: object, where: str) -> object:
    fits, wanted = _SCALARS[kind]
    if type(plain) is not kind or not fits(plain):
        raise _wrong(where, plain, wanted)
    return plain


def _ratio(plain: object, where: str) -> Fraction:
    if isinstance(plain, str) and _RATIO.fullmatch(plain):
        return Fraction(plain)
    raise _wrong(where, plain, "the text of a ratio such as 8 or 8/3")


def _bytes(plain: object, where: str) -> bytes:
    wanted = f"the base64 text of up to {MAX_BYTES} compressed bytes"
    if not isinstance(plain, str):
        raise _wrong(where, plain, wanted)
    try:
        decompressor = zlib.decompressobj()
        content = decompressor.decompress(base64.b64decode(plain, validate=True), MAX_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        raise _wrong(where, plain, wanted) from None
    if not decompressor.eof:
        raise _wrong(where, plain, wanted)
    return content


def from_plain(kind: Any, plain: object, where: str = "") -> Any:
    """The value of type ``kind`` that a JSON value stands for; InputError names the place (``where``) of a wrong one."""
    if kind in _READERS:
        return _READERS[kind](plain, where)
    origin = get_origin(kind)
    if origin is tuple:
        return _tuple(get_args(kind), plain, where)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in get_args(kind) if argument is not type(None))
        return None if plain is None else from_plain(inner, plain, where)
    if issubclass(kind, Enum):
        if not isinstance(plain, str) or plain not in kind.__members__:
            raise _wrong(where, plain, f"one of {', '.join(kind.__members__)}")
        return kind[plain]
    return _struct(kind, plain, where)


def _variant(plain: object, where: str) -> object:
    if not isinstance(plain, dict) or len(plain) != 1 or next(iter(plain)) not in VARIANTS:
        raise _wrong(where, plain, f"an object with one key of {', '.join(VARIANTS)}")
    ((key, value),) = plain.items()
    return from_plain(VARIANTS[key], value, f"{where}.{key}")


_READERS: dict[Any, Callable[[object, str], object]] = {
    **{kind: partial(_scalar, kind) for kind in _SCALARS},
    bytes: _bytes,
    Fraction: _ratio,
    object: _variant,
}


def _tuple(arguments: tuple[Any, ...], plain: object, where: str) -> tuple[Any, ...]:
    if not isinstance(plain, list) or len(plain) > MAX_ITEMS:
        raise _wrong(where, plain, f"a list of up to {MAX_ITEMS} items")
    kinds = (arguments[0],) * len(plain) if arguments[-1] is Ellipsis else arguments
    if len(kinds) != len(plain):
        raise _wrong(where, plain, f"a list of {len(kinds)} items")
    return tuple(from_plain(kind, item, f"{where}[{index}]") for index, (kind, item) in enumerate(zip(kinds, plain, strict=True)))


def _struct(kind: type, plain: object, where: str) -> Any:
    if not isinstance(plain, dict):
        raise _wrong(where, plain, f"an object ({kind.__name__})")
    known = _fields(kind) or {}
    for key in plain:
        if key not in known:
            raise _wrong(where, key, f"one of the keys {', '.join(known)}")
    for name, field in known.items():
        if name not in plain and field.default is NODEFAULT:
            raise _wrong(where, sorted(plain), f"the key {name!r}")
    return kind(**{name: from_plain(known[name].kind, value, f"{where}.{name}" if where else name) for name, value in plain.items()})
