"""Standard output of the commands: printed text is safe for a terminal, and a failed write is recognised."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TextIO

from npu_model.front import later
from npu_model.printable import printable

with later():
    from rich import console as consoles  # The start-up time is paid only where the output is visible.
    from rich import text as texts

_UNSAFE = re.compile(r"[^\n\t -~]")


Span = tuple[int, int, str]
"""A stretch of a text, from a character to another (exclusive), and its style: a colour or "bold"."""


class OutputError(Exception):
    """Standard output cannot be written; ``reason`` is the system's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.reason = str(error.strerror or error).lower()


class Output(io.TextIOBase):
    """A stream that writes to another stream, without the control codes that names may hold.

    Raises OutputError for an OSError of that stream. A BrokenPipeError stays, because it ends a command silently.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the standard library's stub has an attribute
        """The other stream's encoding."""
        return self._stream.encoding

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Whether the other stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The other stream's file number."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write the text, with control codes as escapes."""
        self._write(_UNSAFE.sub(lambda match: printable(match[0]), text))
        return len(text)

    def write_coloured(self, text: str, spans: Sequence[Span]) -> None:
        """Write the text with coloured stretches. It is plain if the other stream shows no colours, or if the text has control codes."""
        if self.isatty() and not _UNSAFE.search(text):
            self._write(_coloured(text, spans, self._stream))
        else:
            self.write(text)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from None

    def flush(self) -> None:
        """Write the buffered text."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from None


def _coloured(text: str, spans: Sequence[Span], stream: TextIO) -> str:
    """The text with codes of colours that the stream's terminal knows; without codes under ``NO_COLOR``."""
    console = consoles.Console(file=stream)
    if console.no_color or console.color_system is None or console.legacy_windows:
        return text
    styled = texts.Text(text)
    for start, end, style in spans:
        styled.stylize(style, start, end)
    with console.capture() as capture:
        console.print(styled, end="", soft_wrap=True, highlight=False, markup=False)
    return capture.get()
