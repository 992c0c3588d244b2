"""Work spread over processes: tasks are handed out as they come, answers are taken in the order that the caller chooses."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from cascader.ethosu.network.network import Network
from npu_model.errors import InputError
from testbed.termination import raise_terminations

T = TypeVar("T")

MOST_PROCESSES = 8
"""More than these wait for each other; ``--jobs`` may ask for more."""


SMALL_NETWORK = 8
"""Parts below which a search is over before other processes have started."""


def default_processes() -> int:
    """The processors that this process may use, at most :data:`MOST_PROCESSES`."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_PROCESSES)


def processes_for(network: Network, processes: int | None) -> int:
    """The number of processes that search a network: those that were asked for, else one for a small network and all that there are."""
    if processes is not None:
        return processes
    return 1 if len(network.graph.parts) < SMALL_NETWORK else default_processes()


class _Here(Executor):
    """Runs every task at once, in this process."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer, or what was raised, as a future that is done."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is raised by result(), as from another process
            future.set_exception(error)
        return future


GRACE_SECONDS = 1.0
"""Time that a task has to clean up before its process ends."""


def _watch(parent: Connection) -> None:
    """Wait until the parent closes its end of the pipe, or is gone; end the task that runs, and then the process."""
    with suppress(EOFError, OSError):
        parent.recv_bytes()
    # Nobody is left to read what is said of it.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
    os._exit(1)


def _start(parent: Connection) -> None:
    """Begin a worker: it ends with its parent, and leaves an interrupt of the terminal to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_terminations()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


@contextmanager
def workers(processes: int) -> Iterator[Executor]:
    """An executor of so many processes; 1 works in this one. The answers of a task do not depend on it.

    Processes are spawned, not forked, so that every platform does the same. They end when this block does or this process does,
    whatever ends it. InputError if one of them dies.
    """
    if processes == 1:
        yield _Here()
        return
    context = get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_start, initargs=(theirs,))
    finished = False
    try:
        yield pool
        finished = True
    except BrokenProcessPool:
        raise InputError(f"One of {processes} worker processes was ended from outside, perhaps for its memory: try --jobs 1.") from None
    finally:
        if not finished:
            # After an error nobody waits for what still runs.
            ours.close()
        pool.shutdown(cancel_futures=True)
        ours.close()
        theirs.close()
