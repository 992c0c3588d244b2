"""Python's search for cycles of objects, which takes a twentieth of a command with its own thresholds: what is made here has few."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (1_000_000, 50, 50)
"""New objects after which Python looks for cycles among them, and how often it looks at older ones."""


def collect_rarely() -> None:
    """Let Python look for cycles rarely from now on."""
    gc.set_threshold(*_RARELY)


def spare_the_last_look() -> None:
    """Do not look through all objects at the end of the process, for nothing: that takes a tenth of a command."""
    atexit.register(gc.freeze)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Let Python look for cycles rarely, and as before afterwards."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
