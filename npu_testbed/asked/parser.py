"""The parser of a command line: it refuses abbreviations, and reports each error in one sentence."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from textwrap import fill
from typing import Any

from npu_model.errors import InputError, did_you_mean


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps paragraphs and dashed items, each wrapped to the terminal's width. Examples keep their line breaks."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        pieces: list[str] = []
        for line in text.splitlines():
            goes_on = pieces and line and not line.startswith(("- ", "  ")) and pieces[-1] and not pieces[-1].startswith("  ")
            # Lines after a colon or a heading are a list; other lines are one paragraph.
            if goes_on and not pieces[-1].endswith(":"):
                pieces[-1] += f" {line}"
            else:
                pieces.append(line)
        return "\n".join(self._piece(piece, width, indent) for piece in pieces)

    @staticmethod
    def _piece(piece: str, width: int, indent: str) -> str:
        if piece.startswith("  ") or not piece:
            return indent + piece
        further = indent + ("  " if piece.startswith("- ") else "")
        return fill(piece, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses abbreviations and raises what is wrong as one sentence.

    ``fill`` gives the parser its options once its command is used, so that the other commands need not be imported.
    """

    def __init__(self, *, fill: Callable[[Parser], None] | None = None, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **settings)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but let the parser of a command, which knows its help, report the command's unknown arguments."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            # An option of another command may look like an unrelated option: --effort is like --report.
            alike = [option for option in self._option_string_actions if option[:3] == word[:3]]
            near = did_you_mean(word, alike) if word.startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return found, unknown

    def error(self, message: str) -> Any:
        """Raise InputError instead of argparse's exit, so that every error is reported in one place."""
        if match := re.search(r"invalid choice: '([^']*)'.*?\(choose from (.*)\)", message):
            message += did_you_mean(match[1], re.findall(r"[^', ]+", match[2]))
        raise InputError(f"{message[:1].upper()}{message[1:]} (see `{self.prog} --help`).")


HELP_WIDTH = 80
"""Characters of a line of an example in a help text, on any terminal."""


def _folded(line: str) -> str:
    r"""A command as a shell reads it, in lines of at most :data:`HELP_WIDTH` characters; an option stays on the line of its value.

    >>> print(_folded("npu-testbed " + " ".join(f"--option-{n} value" for n in range(6))))
      npu-testbed --option-0 value --option-1 value --option-2 value \
        --option-3 value --option-4 value --option-5 value
    """
    lines = ["  "]
    for words in re.split(" (?=-)", line):
        if len(lines[-1]) + len(words) + len(" \\") > HELP_WIDTH:
            lines[-1] += "\\"
            lines.append("    ")
        lines[-1] += f"{words} "
    return "\n".join(lines).rstrip()


def example(*lines: str) -> str:
    """The epilogue of a help text."""
    return "\n".join(("example:" if len(lines) == 1 else "examples:", *map(_folded, lines)))
