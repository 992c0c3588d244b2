"""TOML from any source: parsed, and limited to the numbers that TOML promises."""

from __future__ import annotations

import re
import sys
from typing import Any, TypeVar

from npu_model.documents import typed
from npu_model.errors import InputError
from npu_model.printable import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

_MAX_INTEGER = 1 << 63
"""TOML 1.0: integers of 64 bits with a sign."""

_DEEPEST = 16
"""Tables within tables: no file of ours has more than two levels."""


_DOTTED = re.compile(
    r"""(?:(?:[\w-]{1,99}|"[^"\n]{0,99}"|'[^'\n]{0,99}')[ \t]*\.[ \t]*){%d}""" % _DEEPEST  # noqa: UP031  # braces of its own
)
"""The most parts of a key: a parser keeps every beginning of a key, which is the square of its length."""


def _check_keys(text: str) -> None:
    """ValueError for a key that would take far more memory than the text, before it is parsed."""
    if _DOTTED.search(text):
        raise ValueError(f"a key of more than {_DEEPEST} parts")


def _check(value: object, depth: int = 0) -> None:
    """ValueError for an integer beyond 64 bits or tables deeper than any of ours."""
    if depth > _DEEPEST:
        raise ValueError(f"more than {_DEEPEST} tables or arrays within each other")
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise ValueError(f"an integer of {value.bit_length()} bits, and 64 are the most")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _check(child, depth + 1)


def parse_toml(text: str, what: str, remedy: str) -> dict[str, Any]:
    """The table of a text; ``what`` and ``remedy`` are parts of the InputError for a text that is not TOML."""
    try:
        _check_keys(text)
        table = tomllib.loads(text)
        _check(table)
    except (ValueError, RecursionError) as error:
        # Not every fault is a TOMLDecodeError: Python itself refuses to read an integer of thousands of digits.
        reason = printable(str(error).partition(":")[0] if "integer string conversion" in str(error) else str(error))
        raise InputError(f"{what} is not TOML ({reason}): {remedy}.") from None
    return table


def read_toml(kind: type[T], text: str, what: str, remedy: str) -> T:
    """The value of a Struct for a TOML text; InputError names the first key that is missing, unknown or wrong, as :func:`typed` does."""
    return typed(kind, parse_toml(text, what, remedy), what, remedy=remedy)
