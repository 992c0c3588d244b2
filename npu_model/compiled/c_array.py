"""Arrays in C sources: the bytes of their initialisers, as firmware projects carry a ``.tflite`` or a driver payload.

Declarations are read from a source without comments, strings, attributes and preprocessor lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from npu_model.errors import InputError

_CONTINUED = re.compile(rb"\\[ \t]*\r?\n")
_PIECE = re.compile(
    rb"/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?"
    rb"|//[^\n]*"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    rb"|(?<![\w'])'(?:[^'\\\n]|\\[^\n][0-9a-fA-F]{0,8})'"
)
"""A comment, a string or a character. A comment or a string without an end is one up to the end of the source or of its line."""

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w*)([^\n]*)", re.MULTILINE)
_ATTRIBUTE = re.compile(rb"\[\[[^\[\]]{0,1000}\]\]")
_ESCAPES = {b"n": 10, b"t": 9, b"r": 13, b"a": 7, b"b": 8, b"f": 12, b"v": 11}
_ALIAS = re.compile(
    rb"\btypedef\s+([\w\s:]{1,100}?)\s*\b(\w{1,100})\s*;|\busing\s+(\w{1,100})\s*=\s*([\w\s:]{1,100});"
    rb"|^[ \t]*#[ \t]*define[ \t]+(\w{1,100})[ \t]+([\w \t:]{1,100})$",
    re.MULTILINE,
)
"""Another name of a type: ``typedef TYPE NAME;``, ``using NAME = TYPE;`` or ``#define NAME TYPE``."""


def _character(literal: bytes) -> int:
    r"""The value of a character such as ``'C'`` or ``'\x43'``."""
    content = literal[1:-1]
    if content[:1] != b"\\":
        return content[0]
    if content[1:2] == b"x":
        return int(content[2:] or b"0", 16) & 0xFF
    if content[1:2].isdigit():
        return int(content[1:], 8) & 0xFF if not set(content[1:]) - set(b"01234567") else 0
    return _ESCAPES.get(content[1:2], content[1])


def _plain(found: re.Match[bytes]) -> bytes:
    """The replacement of a comment, a string or a character."""
    text = found[0]
    if text[:1] == b"'":
        return b"%d" % _character(text)
    return b'""' if text[:1] == b'"' else b" "


def _kept(text: bytes) -> Iterator[bytes]:
    """The parts of a text between its preprocessor lines, without the branches that ``#if 0`` and ``#if 1`` exclude."""
    # Each open #if: whether its branch is kept, and whether the branches that follow are (None: all of them).
    branches: list[tuple[bool, bool | None]] = []
    position = 0
    for found in _DIRECTIVE.finditer(text):
        if all(kept for kept, _ in branches):
            yield text[position : found.start()]
        position = found.end()
        word, rest = found[1], found[2].strip().strip(b"()").strip()
        if word in (b"if", b"ifdef", b"ifndef"):
            decided = word == b"if" and rest in (b"0", b"1", b"false", b"true")
            chosen = rest in (b"1", b"true")
            branches.append((chosen, not chosen) if decided else (True, None))
        elif word in (b"else", b"elif") and branches:
            kept, following = branches[-1]
            branches[-1] = (kept if following is None else following, following)
        elif word == b"endif" and branches:
            branches.pop()
    if all(kept for kept, _ in branches):
        yield text[position:]


def source_text(data: bytes) -> bytes:
    """The source's declarations: comments and preprocessor lines are gone, strings are empty, and characters are numbers."""
    return _ATTRIBUTE.sub(b" ", b"\n".join(_kept(_PIECE.sub(_plain, _CONTINUED.sub(b"", data)))))


def type_names(data: bytes) -> dict[bytes, bytes]:
    """The types of a source by the other names that it gives them."""
    found = _ALIAS.findall(data)
    return {(name or other or macro): (kind or of or body) for kind, name, other, of, macro, body in found}


MAX_BYTES = 1 << 28
"""Largest source that is read: about 50 MiB of network."""

_TYPES = (
    (1, re.compile(rb"\b(?:u?int8_t|char|u?int8|[usi]8|UINT8|BYTE|byte)\b")),
    (8, re.compile(rb"\b(?:u?int64_t|u64|UINT64|long\s+long)\b")),
    (2, re.compile(rb"\b(?:u?int16_t|u16|UINT16|short)\b")),
    (4, re.compile(rb"\b(?:u?int32_t|u32|UINT32|unsigned)\b")),
)
"""Bytes of an element by its type; the first one that a declaration names counts."""

_NAME = re.compile(rb"(\w{1,200})\s*\[|\b(?:array|vector)\s*<[^<>]{1,200}>\s*(\w{1,200})")
_LISTED = re.compile(rb"\w\s*\[[^\[\]]{0,200}\]$")
"""The end of a declaration whose initialiser follows without a sign of equality, as C++ has it."""

_BRACE = re.compile(rb"[{}]")
_CAST = re.compile(rb"\(\s*[A-Za-z_][\w\s:]{0,100}\)|\b\w{1,40}_cast\s*<[^<>]{0,100}>|\b(?:std::)?byte\s*(?=\{)")
_NUMBER = re.compile(
    rb"(?<![\w.])(?:-[ \t]?)?\b(?:0[xX][0-9a-fA-F']{1,24}|0[bB][01']{1,80}|[0-9][0-9']{0,32})(?:[uU]?[lLzZ]{0,2}|[lL]{1,2}[uU])\b"
)
_UNUSUAL = re.compile(rb"['uUlLzZ]|-[ \t]|\b0[0-9]")
"""Spellings that Python does not share: octal numbers, suffixes, digit separators and a sign on its own."""

_BINARY = 1 << 12
"""Number of bytes that decide between text and binary."""

_LOWEST, _HIGHEST = -128, 255


def _initialisers(text: bytes, names: dict[bytes, bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """Every array of bytes or words: its declaration, the bytes of an element, and the text between its braces."""
    position = 0
    while (start := text.find(b"{", position)) >= 0:
        declaration = text[position:start].rpartition(b";")[2].rstrip()
        size = _element(declaration, names) if _is_array(declaration) else 0
        if not size:
            # A function, a namespace or a structure, in which an array may stand.
            position = start + 1
            continue
        end = _closed(text, start)
        if end < 0:
            return
        yield declaration, size, text[start + 1 : end]
        position = end + 1


def _closed(text: bytes, start: int) -> int:
    """The position of the brace that closes the one at ``start``; -1 if there is none."""
    depth = 0
    for found in _BRACE.finditer(text, start):
        depth += 1 if found[0] == b"{" else -1
        if not depth:
            return found.start()
    return -1


def _is_array(declaration: bytes) -> bool:
    """Whether an initialiser of an array or of a ``std::array`` follows."""
    if _LISTED.search(declaration[-256:]) or (declaration.endswith(b"=") and b"[" in declaration):
        return True
    name = _NAME.search(declaration)
    return name is not None and name[2] is not None and declaration[name.end() :].strip() in (b"", b"=")


def _element(declaration: bytes, names: dict[bytes, bytes]) -> int:
    """The bytes of an element of a declared array; 0 for other types than integers of a known width."""
    known = b" ".join(names.get(word, word) for word in re.findall(rb"\w+", declaration)) if names else declaration
    return next((size for size, kind in _TYPES if kind.search(known)), 0)


def _value(number: bytes) -> int:
    """A number of C, in any base."""
    digits = number.replace(b"'", b"").replace(b" ", b"").replace(b"\t", b"").lower().rstrip(b"ulz")
    sign, digits = (-1, digits[1:]) if digits[:1] == b"-" else (1, digits)
    if digits[:2] in (b"0x", b"0b"):
        return sign * int(digits[2:] or b"0", 16 if digits[1:2] == b"x" else 2)
    is_octal = digits[:1] == b"0" and not set(digits) - set(b"01234567")
    return sign * int(digits, 8 if is_octal else 10)


def _content(initialiser: bytes, size: int) -> bytes:
    """The bytes of an array; empty for a value that does not fit into a word, and where values are placed by their index."""
    if b"[" in initialiser:
        return b""
    text = _CAST.sub(b" ", initialiser) if b"(" in initialiser or b"<" in initialiser else initialiser
    numbers = _NUMBER.findall(text)
    values = [_value(number) for number in numbers] if _UNUSUAL.search(text) else [int(number, 0) for number in numbers]
    if size == 1:
        wrong = next((value for value in values if not _LOWEST <= value <= _HIGHEST), None)
        if wrong is not None:
            raise InputError(
                f"An array of bytes in the C source holds {wrong}: {_LOWEST} to {_HIGHEST} is the range; give an array of bytes."
            )
        return bytes([value & 0xFF for value in values])
    bits = 8 * size
    fits = all(-(1 << bits - 1) <= value < 1 << bits for value in values)
    return b"".join((value & (1 << bits) - 1).to_bytes(size, "little") for value in values) if fits else b""


def _arrays(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The arrays of a source; none if it is not text."""
    if b"\0" not in data[:_BINARY] and len(data) <= MAX_BYTES:
        yield from _initialisers(source_text(data), type_names(data))


def named_arrays(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The name and content of every array of bytes or words in a C source, in order. InputError for a value that is not a byte."""
    for declaration, size, initialiser in _arrays(data):
        name = _NAME.search(declaration)
        yield "" if name is None else (name[1] or name[2]).decode("ascii", "replace"), _content(initialiser, size)


def c_arrays(data: bytes) -> Iterator[bytes]:
    """The content of every array of bytes in a C source, in order; empty if it is not text. InputError for a value that is not a byte."""
    yield from (_content(initialiser, size) for _, size, initialiser in _arrays(data) if size == 1)
