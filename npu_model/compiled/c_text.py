"""The text of a C or C++ source that declarations are read from: without comments, strings, attributes and preprocessor lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
