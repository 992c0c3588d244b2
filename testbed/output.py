"""Standard output as the commands see it: what is printed is safe for a terminal, and what cannot be written is told apart."""

from __future__ import annotations

import io
import re
from typing import TextIO

from npu_model.printable import printable

_UNSAFE = re.compile(r"[^\n\t -~]")


class OutputError(Exception):
    """Standard output takes no more; ``reason`` is what the system says."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.reason = str(error.strerror or error).lower()


class Output(io.TextIOBase):
    """A stream that writes to another one: without control codes, whatever name they came in.

    Raises OutputError where the other one raises OSError, but BrokenPipeError as it is: that ends a command without a word.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the standard library's stub has an attribute
        """That of the other stream."""
        return self._stream.encoding

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Whether the other one is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The other one's."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write the text, control codes as escapes."""
        try:
            self._stream.write(_UNSAFE.sub(lambda match: printable(match[0]), text))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from None
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from None
