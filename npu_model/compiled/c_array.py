"""Compiled networks as C arrays: the bytes of the initialisers in a C source, as firmware projects carry a ``.tflite``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npu_model.errors import InputError

MAX_BYTES = 1 << 28
"""Bound of a source that is read: some 50 MiB of network."""

_TYPE = re.compile(rb"\b(?:u?int8_t|char)\b")
_NUMBER = re.compile(rb"0[xX][0-9a-fA-F]{1,8}|-?\d{1,10}")
_BINARY = 1 << 12
"""Bytes that are looked at to tell text from binary."""

_LOWEST, _HIGHEST = -128, 255


def _without_comments(data: bytes) -> bytes:
    """The source without its comments, each a space; one pass, whatever it holds."""
    kept, position = [], 0
    while (start := data.find(b"/", position)) >= 0:
        end = {b"/*": b"*/", b"//": b"\n"}.get(data[start : start + 2])
        if end is None:
            kept.append(data[position : start + 1])
            position = start + 1
            continue
        kept += [data[position:start], b" "]
        found = data.find(end, start + 2)
        position = len(data) if found < 0 else found + len(end)
    return b"".join([*kept, data[position:]])


def _initialisers(data: bytes) -> Iterator[bytes]:
    """The text between the braces after every declaration of an array of bytes."""
    position = 0
    while (start := data.find(b"{", position)) >= 0:
        end = data.find(b"}", start)
        if end < 0:
            return
        declaration = data[position:start].rpartition(b";")[2].rstrip()
        if declaration.endswith(b"=") and b"[" in declaration and _TYPE.search(declaration):
            yield data[start + 1 : end]
            position = end + 1
        else:
            # A function, a namespace or a structure, in which an array may stand.
            position = start + 1


def _bytes(initialiser: bytes) -> bytes:
    values = [int(number, 16 if number[1:2] in b"xX" and number[1:2] else 10) for number in _NUMBER.findall(initialiser)]
    wrong = next((value for value in values if not _LOWEST <= value <= _HIGHEST), None)
    if wrong is not None:
        raise InputError(f"An array of bytes in the C source holds {wrong}: {_LOWEST} to {_HIGHEST} is the range; give an array of bytes.")
    return bytes([value & 0xFF for value in values])


def c_arrays(data: bytes) -> Iterator[bytes]:
    """The content of every array of bytes in a C source, in order; none of what is no text. InputError if one holds what is no byte."""
    if b"\0" not in data[:_BINARY] and len(data) <= MAX_BYTES:
        yield from map(_bytes, _initialisers(_without_comments(data)))
