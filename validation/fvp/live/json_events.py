"""Traces as streams of JSON events: only some of a trace's events are in memory, however large it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from npu_model.errors import InputError

MAX_BYTES = 512 << 20
"""Largest unpacked trace that is read."""

MAX_EVENTS = 1 << 22
"""Largest number of events that are read. A useful event has a hundred characters or more."""

_CHUNK = 1 << 16
"""Bytes that are unpacked at a time."""

_MOST_VALUE = 1 << 22
"""Characters of the longest event: one has some hundred."""

_AHEAD = 4
"""Characters that end a number."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""zlib's number for gzip with its largest window."""

_MOST_RATIO = 100
"""Largest ratio of unpacked to packed bytes of a gzipped trace: traces reach about thirty, endless repetition a thousand."""

_SPACE = " \t\r\n"


def _not_json(reason: str) -> InputError:
    return InputError(f"The PMU trace is not JSON ({reason[:80]}): let the FVP write it again.")


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes of a trace, gzipped or not, piece by piece."""
    if not data.startswith(_GZIP):
        yield from (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))
        return
    unpacker, rest = zlib.decompressobj(_GZIP_WINDOW), data
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(rest, _CHUNK)
        except zlib.error as error:
            raise InputError(f"The PMU trace is not gzip ({error}): let the FVP write it again.") from None
        rest = unpacker.unconsumed_tail
        if not piece and not rest:
            return  # it was cut off
        yield piece


class _Reader:
    """A text that is read further when a value is requested."""

    def __init__(self, data: bytes) -> None:
        self._pieces = _unpacked(data)
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._read = "", 0, 0
        self._most = min(MAX_BYTES, _MOST_RATIO * len(data) + _CHUNK)

    def _more(self) -> bool:
        """Read more; return whether there was more."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._read += len(piece)
        if self._read > self._most:
            raise InputError(f"The PMU trace unpacks to more than {self._most} bytes: trace a shorter inference.")
        # Names may be any text; the fields that are read from a trace are ASCII.
        self._text, self._at = self._text[self._at :] + piece.decode("latin-1"), 0
        return True

    def peek(self) -> str:
        """The next character that is not a space, "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self) -> str:
        """The next character that is not a space; it is consumed."""
        found = self.peek()
        self._at += len(found)
        return found

    def value(self) -> Any:
        """The next value; InputError if there is none."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                wrong: str = str(error)
                end = len(self._text)
            else:
                wrong = ""
            # A number may continue in the next chunk: 1 as 1.5 or 1e+5.
            if len(self._text) - end < _AHEAD:
                if end - self._at > _MOST_VALUE:
                    raise _not_json(f"a value of more than {_MOST_VALUE} characters")
                if self._more():
                    continue
            if wrong:
                raise _not_json(wrong)
            self._at = end
            return value


def _items(reader: _Reader) -> Iterator[Any]:
    """The items of a list, which may lack its end, because a simulator may stop at any time."""
    reader.take()
    count = 0
    while (found := reader.peek()) not in ("", "]"):
        count += 1
        if count > MAX_EVENTS:
            raise InputError(f"The PMU trace has more than {MAX_EVENTS} events: trace a shorter inference.")
        yield reader.value()
        if reader.peek() not in (",", "]", ""):
            raise _not_json(f"{found!r} begins an item that no comma ends")
        if reader.peek() == ",":
            reader.take()
    reader.take()


def events(data: bytes) -> Iterator[Any]:
    """The events of a Chrome trace: a list, or an object with one, gzipped or not; InputError if it is neither."""
    reader = _Reader(data)
    first = reader.peek()
    if first == "[":
        yield from _items(reader)
    elif first == "{":
        reader.take()
        while reader.peek() not in ("", "}"):
            key = reader.value()
            if reader.take() != ":":
                raise _not_json("a key without a value")
            if key == "traceEvents" and reader.peek() == "[":
                yield from _items(reader)
            else:
                reader.value()
            if reader.peek() == ",":
                reader.take()
            elif reader.peek() != "}":
                break
        if reader.take() != "}":
            raise _not_json("an object that is not closed")
    else:
        reader.value()
    if reader.peek():
        raise _not_json("more behind its end")
