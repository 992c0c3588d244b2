"""The time that a compilation with Vela may take, for all that runs within a block, in other processes too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cascader.frontends.vela_timeout import TIMEOUT_VARIABLE


@contextmanager
def vela_timeout(seconds: float | None) -> Iterator[None]:
    """Within, a compilation takes at most so many seconds; None leaves it at what it was."""
    if seconds is None:
        yield
        return
    before = os.environ.get(TIMEOUT_VARIABLE)
    os.environ[TIMEOUT_VARIABLE] = repr(seconds)
    try:
        yield
    finally:
        if before is None:
            del os.environ[TIMEOUT_VARIABLE]
        else:
            os.environ[TIMEOUT_VARIABLE] = before
