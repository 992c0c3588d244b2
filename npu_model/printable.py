"""Text from files in a form that is safe to print: one line, no control codes, bounded."""

from __future__ import annotations

MAX_NAME = 200
"""Characters of a name that a line of text shows."""

_SHOWN = 60


def printable(text: str, limit: int = MAX_NAME) -> str:
    r"""The text with every character that is not printable as its escape, cut in its middle to ``limit`` characters.

    Line ends, terminal codes, marks that turn the direction of writing and halves of characters all are escaped.

    >>> printable("conv\x1b[2K\rNPU cycles 1\n")
    'conv\\x1b[2K\\rNPU cycles 1\\n'
    >>> printable("a" * 300, 11)
    'aaaa...aaaa'
    """
    # Text that is cut off need not be escaped first: a name may have megabytes.
    text = _cut(text, limit)
    if text.isprintable():
        return text
    return _cut("".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text), limit)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[half - limit + 3 :]}"


def text_of(name: str) -> str:
    r"""The name of a file as text: bytes that are not UTF-8 become escapes.

    >>> text_of("net.tflite"), text_of("a\udcff.tflite")
    ('net.tflite', 'a\\xff.tflite')
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def shown(value: object) -> str:
    r"""A value from a file as a message quotes it: its Python form, cut to 60 characters.

    >>> shown(-3), shown([1, 2]), shown("a\nb")
    ('-3', '[1, 2]', "'a\\nb'")
    >>> shown(10**5000)
    'an integer of 16610 bits'
    """
    if isinstance(value, int) and value.bit_length() > 128:
        # Python refuses to write out very long integers.
        return f"an integer of {value.bit_length()} bits"
    return printable(repr(value), _SHOWN)
