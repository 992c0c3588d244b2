"""Enums whose members also have a number in the registers."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from npu_model.errors import InputError

C = TypeVar("C", bound="Coded")


class Coded(Enum):
    """A member's value is its name, which files hold; ``code`` is the number that the registers hold for it.

    >>> class Mode(Coded):
    ...     SLOW = "SLOW", 0
    ...     FAST = "FAST", 2
    >>> Mode.of(2), Mode("FAST").code
    (<Mode.FAST: 'FAST'>, 2)
    """

    code: int

    __hash__ = object.__hash__  # An Enum's own runs in Python, at each look-up.

    def __new__(cls: type[C], name: str, code: int) -> C:  # noqa: PYI019  # Self is of Python 3.11
        """The member with the given name."""
        member = object.__new__(cls)
        member._value_ = name
        member.code = code
        return member

    @classmethod
    def of(cls: type[C], code: int) -> C:  # noqa: PYI019  # Self is of Python 3.11
        """The member with this code; ValueError if there is none."""
        for member in cls:
            if member.code == code:
                return member
        raise ValueError(f"{cls.__name__} has no code {code}.")


def member(kind: type[C], code: int, what: str) -> C:
    """The member with a command stream's code; InputError names the field ``what`` if there is none."""
    try:
        return kind.of(code)
    except ValueError:
        raise InputError(f"{what} {code} in the command stream is unknown: the file is damaged or for another NPU.") from None
