"""SIGTERM and SIGHUP end a command as Ctrl-C does: its processes and temporary files are cleaned up."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from npu_model.errors import InputError

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals that ask a process to end, where the system has them."""


class Terminated(KeyboardInterrupt):
    """A signal that asks the process to end. Like an interrupt, it passes all handlers of errors."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
        """Set the exit status that shells report."""
        self.is_told = False
        """Whether the user has been told about the result."""

    @classmethod
    def by_status(cls, status: int) -> Terminated:
        """The signal for an exit status above 128, about which the user has been told."""
        stop = cls(status - 128)
        stop.is_told = True
        return stop


class TimeIsUp(KeyboardInterrupt):
    """The given time is over."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Within, :class:`TimeIsUp` is raised in the main thread after ``seconds`` by the clock (None: never)."""
    if seconds is None:
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        raise InputError(f"A time limit of {seconds:g} s was set in a thread: only the main thread can be interrupted; search there.")
    over = threading.Event()

    def ring() -> None:
        over.set()
        if hasattr(signal, "pthread_kill"):
            # A signal wakes a thread that waits for another process.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def end(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeIsUp if over.is_set() else KeyboardInterrupt

    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    before = signal.signal(signal.SIGINT, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal during the clean-up is answered with a request to wait; SIGKILL does not wait.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


def raise_terminations() -> None:
    """From now on, a signal that asks this process to end raises :class:`Terminated` in its main thread."""
    for number in SIGNALS:
        signal.signal(number, _raise)


@contextmanager
def terminations() -> Iterator[None]:
    """Within, a signal that asks the process to end raises :class:`Terminated`, unless the starter had it ignored (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals. A program that calls us elsewhere handles its own.
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
