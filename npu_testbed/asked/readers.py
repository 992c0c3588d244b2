"""Readers: from a word of the command line to a value, refused in one sentence with the bound and the remedy."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from npu_model.errors import InputError
from npu_testbed.models.input_shapes import InputShape
from npu_testbed.models.layouts import ChannelsLast

N = TypeVar("N", int, float)

LEAST = sys.float_info.min
"""The least time above 0."""

MOST_TIMES = 8
"""Largest multiple of a network's multiply-accumulates that a user may allow. No known form saves bytes beyond it."""


MOST_CYCLES = 1 << 62
"""Bound of a number of cycles."""
MOST_BYTES = 1 << 40
"""Bound of a number of bytes: an address of the NPU has 40 bits."""


_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
"""Bytes of the units of a size, in upper or lower case."""


def _bytes(text: str) -> int:
    unit = _UNITS.get(text[-3:].lower())
    return int(text) if unit is None else int(text[:-3]) * unit


def byte_count(text: str) -> int:
    """A number of bytes from 1 to `MOST_BYTES`, alone or in KiB, MiB or GiB.

    >>> byte_count("262144"), byte_count("256KiB"), byte_count("1 MiB")
    (262144, 262144, 1048576)
    """
    what = f"a number of bytes, give an integer from 1 to {MOST_BYTES}, or one with KiB, MiB or GiB after it"
    return number(_bytes, text, 1, MOST_BYTES, what)


def cycle_count(text: str) -> int:
    """A number of cycles, 1 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= MOST_CYCLES):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of cycles, give an integer of 1 or more")
    return int(text)


def number(kind: Callable[[str], N], text: str, least: float, most: float, what: str) -> N:
    """A number between bounds; ``what`` says what the text is not, and what to give."""
    try:
        # Python reads the digits of every script; no other option does.
        value = kind(text) if text.isascii() else None
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not {what}")
    return value


def positive_count(text: str) -> int:
    """A number from 1 to 1000."""
    return number(int, text, 1, 1000, "a number from 1 to 1000")


def seed_number(text: str) -> int:
    """A seed of random numbers."""
    return number(int, text, 0, 2**32 - 1, "a number from 0 to 4294967295")


def percentage(text: str) -> float:
    """A number from 0 to 100."""
    return number(float, text, 0, 100, "a percentage, give a number from 0 to 100")


def seconds(text: str) -> float:
    """A time in seconds, above 0."""
    return number(float, text, LEAST, 7 * 24 * 3600, "a time, give seconds above 0, up to a week")


def milliseconds(text: str) -> float:
    """A time in milliseconds, above 0."""
    return number(float, text, LEAST, 1e9, "a time, give milliseconds above 0, up to a billion")


MOST_TOLERANCE = 1000
"""Largest tolerance in per cent."""


def per_cent(text: str) -> Fraction:
    """A percentage, exactly, as a fraction of 1.

    >>> per_cent("0.5")
    Fraction(1, 200)
    """
    whole, mark, part = text.partition(".")
    if not all(digits.isascii() and digits.isdecimal() for digits in ([whole, part] if mark else [whole])) or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a percentage, give one such as 1 or 0.5")
    if (value := Fraction(text)) > MOST_TOLERANCE:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is above {MOST_TOLERANCE} per cent, give a smaller one")
    return value / 100


def _parsed(parse: Callable[[str], object], text: str) -> Any:
    try:
        return parse(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def input_shape(text: str) -> Any:
    """An ``--input-shape``."""
    return _parsed(InputShape.of, text)


def layout(text: str) -> Any:
    """A ``--layout``."""
    return _parsed(ChannelsLast.of, text)


def times(text: str) -> Fraction:
    """A multiple of 1 or more, such as 1.1.

    >>> times("1.14")
    Fraction(57, 50)
    """
    try:
        value = Fraction(text) if re.fullmatch(r"\d{1,4}(\.\d{1,6})?", text, re.ASCII) else Fraction(0)
    except ValueError:
        value = Fraction(0)
    if not 1 <= value <= MOST_TIMES:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a multiple, give one from 1 to {MOST_TIMES}, such as 1.1")
    return value
