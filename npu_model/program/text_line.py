"""One line of the text form of a Program: its words, each taken once, and the errors that name the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from npu_model.errors import InputError

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


@dataclass(slots=True)
class Line:
    """One line taken apart: its first word, bare values, ``key=value`` pairs and the trailing name; each is taken once."""

    number: int
    word: str = ""
    values: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    name: str | None = None

    def fail(self, what: str) -> InputError:
        """The error of this line, to be raised."""
        return InputError(f"Line {self.number} of the program text {what}: write the text again with to_text.")

    def read(self, reader: Callable[[str], _T], text: str) -> _T:
        """The result of ``reader(text)``; its failure names the line."""
        try:
            return reader(text)
        except (ValueError, KeyError, TypeError):
            raise self.fail(f"has {text!r} where {reader.__name__.strip('_').replace('_', ' ')} is needed") from None

    def take(self, reader: Callable[[str], _T]) -> _T:
        """The next bare value."""
        if not self.values:
            raise self.fail(f"ends where {reader.__name__.strip('_').replace('_', ' ')} is needed")
        return self.read(reader, self.values.pop(0))

    def option(self, key: str, reader: Callable[[str], _T], default: _T) -> _T:
        """The value of ``key=``, or the default."""
        return self.read(reader, self.options.pop(key)) if key in self.options else default

    def needed(self, key: str, reader: Callable[[str], _T]) -> _T:
        """The value of ``key=``, which must be present."""
        if key not in self.options:
            raise self.fail(f"has no {key}=")
        return self.read(reader, self.options.pop(key))

    def flag(self, word: str) -> bool:
        """Whether the bare word is among the values."""
        found = word in self.values
        if found:
            self.values.remove(word)
        return found

    def member(self, kind: type[_E], text: str) -> _E:
        """The enumeration's member of this name."""
        if text not in kind.__members__:
            raise self.fail(f"has {text!r} where one of {', '.join(kind.__members__)} is needed")
        return kind[text]

    def choice(self, key: str, default: _E) -> _E:
        """The member that ``key=`` names, or the default."""
        return self.member(type(default), self.options.pop(key)) if key in self.options else default

    def close(self) -> None:
        """InputError if anything on the line was not taken."""
        left = self.values + [f"{key}={value}" for key, value in self.options.items()] + ([] if self.name is None else [self.name])
        if left:
            raise self.fail(f"has {left[0]!r}, which {self.word!r} does not know or has twice")


def parse_line(number: int, text: str) -> Line:
    """The line taken apart: word, values, ``key=value`` pairs and the JSON string at its end."""
    line = Line(number)
    quote = text.find('"')
    if quote >= 0:
        line.name = line.read(_name, text[quote:].strip())
        text = text[:quote]
    tokens = text.split()
    line.word = tokens[0] if tokens else ""
    for token in tokens[1:]:
        key, equals, value = token.partition("=")
        if not equals:
            line.values.append(token)
        elif key in line.options:
            raise line.fail(f"has {key}= twice")
        else:
            line.options[key] = value
    return line


def _name(text: str) -> str:
    value = json.loads(text)
    if not isinstance(value, str):
        raise TypeError(text)
    return value
