"""Python's search for cycles of objects. With Python's own thresholds it takes a twentieth of a command, though there are few cycles."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (1_000_000, 50, 50)
"""Number of new objects before Python looks for cycles among them, and how often it looks at older ones."""


def collect_rarely() -> None:
    """Let Python look for cycles rarely from now on."""
    gc.set_threshold(*_RARELY)


def spare_the_last_look() -> None:
    """Skip the search through all objects at the end of the process, which would take a tenth of a command."""
    atexit.register(gc.freeze)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """A block during which Python looks for cycles rarely."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
