"""SIGTERM and SIGHUP made to end a command as Ctrl-C does: what it started and what it wrote for itself is cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that ask a process to end, where the system has them."""


class Terminated(KeyboardInterrupt):
    """A signal has asked the process to end: like an interrupt, no handler of errors stops it on its way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """Exit status, as shells report it."""


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    # Whoever asks again while we clean up is asked to wait; SIGKILL does not wait.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


def raise_terminations() -> None:
    """From now on, a signal that asks this process to end raises :class:`Terminated` in its main thread."""
    for number in SIGNALS:
        signal.signal(number, _raise)


@contextmanager
def terminations() -> Iterator[None]:
    """Within, a signal that asks the process to end raises :class:`Terminated`, unless whoever started it has it ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals: a program that calls us elsewhere handles its own.
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
