"""From an Ask to the parser of its command, and from parsed options to the Ask."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent
from typing import Any, TypeVar

from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import add_options, declared
from npu_testbed.asked.parser import Parser, example

R = TypeVar("R")


def fill(parser: Parser, ask: type[Ask[Any]], *, is_needed: bool = True) -> None:
    """Turn a parser into a command's. A verb returns what the command must write to a file (``is_needed`` False)."""
    parser.description = description(ask)
    parser.epilog = example(*ask.examples) if ask.examples else None
    add_options(parser, ask, is_needed=is_needed)
    ask.extend(parser)


def description(ask: type[Ask[Any]]) -> str:
    """The description of a command for its help text."""
    return "\n\n".join(filter(None, (_dedented(ask.__doc__ or ""), ask.more)))


def _dedented(text: str) -> str:
    """A docstring without its indentation, as inspect.cleandoc returns it. Importing inspect would take a tenth of a help text's time."""
    first, _, rest = text.partition("\n")
    return f"{first.strip()}\n{dedent(rest)}".strip()


def made(ask: type[Ask[R]], said: Mapping[str, Any]) -> Ask[R]:
    """The Ask of parsed options."""
    known = {one.name for one in declared(ask)}
    ask.take(said)
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items() if name in known}
    return ask(**values)
