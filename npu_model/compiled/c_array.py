"""Compiled networks as C arrays: the bytes of the initialisers in a C source, as firmware projects carry a ``.tflite``."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from npu_model.errors import InputError

MAX_BYTES = 1 << 28
"""Largest source that is read: about 50 MiB of network."""

_TYPE = re.compile(rb"\b(?:u?int8_t|char|u?int8|u8|UINT8|BYTE|byte)\b")
_WORD_TYPE = re.compile(rb"\bu?int32_t\b")
_NAME = re.compile(rb"(\w{1,200})\s*\[|\barray\s*<[^<>]{1,200}>\s*(\w{1,200})")
_LISTED = re.compile(rb"\w\s*\[[^\[\]]{0,200}\]$")
"""The end of a declaration whose initialiser follows without a sign of equality, as C++ has it."""
_NUMBER = re.compile(rb"0[xX][0-9a-fA-F]{1,8}|-?\d{1,10}")
_BINARY = 1 << 12
"""Number of bytes that decide between text and binary."""

_LOWEST, _HIGHEST = -128, 255


def _without_comments(data: bytes) -> bytes:
    """The source with a space for each comment, in one pass."""
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


def _initialisers(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Every declaration of an array of bytes or words, with the text between its braces."""
    position = 0
    while (start := data.find(b"{", position)) >= 0:
        end = data.find(b"}", start)
        if end < 0:
            return
        declaration = data[position:start].rpartition(b";")[2].rstrip()
        is_array = _LISTED.search(declaration[-256:]) or (declaration.endswith(b"=") and b"[" in declaration) or _is_array(declaration)
        if is_array and (_TYPE.search(declaration) or _WORD_TYPE.search(declaration)):
            yield declaration, data[start + 1 : end]
            position = end + 1
        else:
            # A function, a namespace or a structure, which may contain an array.
            position = start + 1


def _is_array(declaration: bytes) -> bool:
    """Whether an initialiser follows the declaration of a ``std::array``."""
    name = _NAME.search(declaration)
    return name is not None and name[2] is not None and declaration[name.end() :].strip() in (b"", b"=")


def _values(initialiser: bytes) -> list[int]:
    return [int(number, 16 if number[1:2] in b"xX" and number[1:2] else 10) for number in _NUMBER.findall(initialiser)]


def _words(initialiser: bytes) -> bytes:
    """The bytes of an array of words; empty if a value has more than 32 bits, because no network's array does."""
    values = _values(initialiser)
    return struct.pack(f"<{len(values)}I", *values) if all(0 <= value < 1 << 32 for value in values) else b""


def _bytes(initialiser: bytes) -> bytes:
    values = _values(initialiser)
    wrong = next((value for value in values if not _LOWEST <= value <= _HIGHEST), None)
    if wrong is not None:
        raise InputError(f"An array of bytes in the C source holds {wrong}: {_LOWEST} to {_HIGHEST} is the range; give an array of bytes.")
    return bytes([value & 0xFF for value in values])


def _text(data: bytes) -> bytes:
    """The source without comments; empty if it is not text."""
    return _without_comments(data) if b"\0" not in data[:_BINARY] and len(data) <= MAX_BYTES else b""


def named_arrays(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The name and content of every array of bytes or 32-bit words in a C source, in order. InputError for a value that is not a byte."""
    for declaration, initialiser in _initialisers(_text(data)):
        name = _NAME.search(declaration)
        is_bytes = _TYPE.search(declaration) is not None
        yield "" if name is None else (name[1] or name[2]).decode("ascii", "replace"), (_bytes if is_bytes else _words)(initialiser)


def c_arrays(data: bytes) -> Iterator[bytes]:
    """The content of every array of bytes in a C source, in order; empty if it is not text. InputError for a value that is not a byte."""
    yield from (_bytes(initialiser) for declaration, initialiser in _initialisers(_text(data)) if _TYPE.search(declaration))
