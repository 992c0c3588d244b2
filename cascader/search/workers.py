"""Work spread over processes: calls are sent out in their order, and the caller chooses the order of the answers."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn, Protocol, TypeVar

from msgspec import Struct

from cascader.search.shared_arguments import SharedArgument, SharedArguments, inherited, sent
from npu_model.collector import collect_rarely, rarely_collected
from npu_model.errors import InputError

T = TypeVar("T")

MOST_PROCESSES = 8
"""The most processes by default: more of them wait for each other. ``--jobs`` may ask for more."""

SMALL_NETWORK = 8
"""Parts below which a search is over before other processes have started."""


def default_processes() -> int:
    """The processors that this process may use, at most :data:`MOST_PROCESSES`."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_PROCESSES)


def processes_for(parts: int, processes: int | None) -> int:
    """The number of processes that search a network of ``parts`` parts: ``processes`` if given, else 1 if it is small, or the default."""
    if processes is not None:
        return processes
    return 1 if parts < SMALL_NETWORK else default_processes()


class _Later(Future[T]):
    """An answer that this process computes on the first request."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work: Callable[[], T] | None = work

    def result(self, timeout: float | None = None) -> T:
        """The answer; raises what the work raises."""
        work, self._work = self._work, None
        if work is not None:
            try:
                self.set_result(work())
            except Exception as error:  # noqa: BLE001  # whatever it is, it is raised below, as from another process
                self.set_exception(error)
        return super().result(timeout)


def as_completed(answers: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """The answers of an executor as they arrive: this process's answers in their order, then the others' as they are ready."""
    listed = list(answers)
    for answer in listed:
        if isinstance(answer, _Later):
            with suppress(Exception):
                answer.result()
            yield answer
    yield from futures.as_completed([answer for answer in listed if not isinstance(answer, _Later)])


def in_order(answers: Iterable[Future[T]]) -> Iterator[T]:
    """The answers of an executor in their order. While this process would wait for another one, it computes its own next answer."""
    listed = list(answers)
    own = deque(answer for answer in listed if isinstance(answer, _Later))
    for answer in listed:
        while not answer.done() and own:
            with suppress(Exception):
                own.popleft().result()
        yield answer.result()


def drawn_ahead(asked: Iterator[Future[T]], count: int) -> Iterator[T]:
    """The answers of an executor in their order, with ``count`` of them requested at a time; stopping early cancels the others.

    As in :func:`in_order`, this process computes its own answers while it would wait for others.
    """
    waiting: deque[Future[T]] = deque()
    try:
        while True:
            waiting.extend(islice(asked, count - len(waiting)))
            if not waiting:
                return
            own = deque(answer for answer in waiting if isinstance(answer, _Later) and not answer.done())
            while own and not waiting[0].done():
                with suppress(Exception):
                    own.popleft().result()
            yield waiting.popleft().result()
    finally:
        for answer in waiting:
            answer.cancel()


class _Here(Executor):
    """Makes every call in this process, in the order in which answers are requested."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer, which is not computed yet."""
        return _Later(partial(fn, *args, **kwargs))


class Takers(Protocol):
    """Those who may take a call."""

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes, of ``processes``, that may take it."""


class Directed(Struct, frozen=True):
    """A function whose calls go to its ``takers``, whatever its first argument is."""

    function: Callable[..., Any]
    takers: Takers

    def __call__(self, *args: Any) -> Any:
        """The answer of the function."""
        return self.function(*args)


class _Processes(Executor):
    """Processes, each with a line of calls of its own; the first may be this one.

    A first argument with ``worker_processes`` (which processes out of how many may take it) leads its call there, where earlier calls have
    left useful results. The takers of a :class:`Directed` function come before it. If several may take it, and for any other argument, the
    process with the shortest line takes it. Another process gets each shared argument (:mod:`cascader.search.shared_arguments`) once. If it
    is ``late``, this process makes all calls until :func:`begin`.
    """

    def __init__(self, lines: Sequence[Executor], *, late: bool = False) -> None:
        self._lines = lines
        self.waits = late
        self._waiting = [0] * len(lines)
        self._shared = [None if isinstance(line, _Here) else SharedArguments() for line in lines]
        # Every line reports its answers in its own thread.
        self._lock = threading.Lock()
        # Calls arrive in the order in which they are packed. This needs another lock, because a line may hold its own while it reports an
        # answer.
        self._sending = threading.Lock()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The answer, from the process that takes the call."""
        function, takers = (fn.function, fn.takers) if isinstance(fn, Directed) else (fn, args[0] if args else None)
        lines_of = getattr(takers, "worker_processes", None)
        count = 1 if self.waits else len(self._lines)
        open_to = range(count) if lines_of is None else lines_of(count)
        with self._lock:
            line = min(open_to, key=lambda number: self._waiting[number])
            self._waiting[line] += 1
        shared = self._shared[line]
        with self._sending:
            packed = args if shared is None else tuple(sent(one, shared) for one in args)
            answer = self._lines[line].submit(function, *packed, **kwargs)
        answer.add_done_callback(lambda _: self._done(line))
        return answer

    def call_each(self, fn: Callable[[], object]) -> None:
        """Have each other process call a function before all other calls; no caller waits for the result."""
        for line in self._lines:
            if not isinstance(line, _Here):
                line.submit(fn)

    def begin(self, held: Sequence[SharedArgument], fn: Callable[[], object]) -> None:
        """Start the other processes as copies of this one, which have the shared arguments that are ``held``; each calls ``fn`` first."""
        self.waits = False
        with inherited(held, [shared for shared in self._shared if shared is not None]):
            self.call_each(fn)

    def _done(self, line: int) -> None:
        with self._lock:
            self._waiting[line] -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  # as every Executor
        """End all processes."""
        for line in self._lines:
            line.shutdown(wait=wait, cancel_futures=cancel_futures)


def prepare(executor: Executor, fn: Callable[[], object]) -> None:
    """Have each process of an executor but this one call a function while this one has other work."""
    if isinstance(executor, _Processes) and not executor.waits:
        executor.call_each(fn)


def begin(executor: Executor, held: Sequence[SharedArgument], fn: Callable[[], object]) -> bool:
    """Have the other process of a late executor begin, as a copy of this one with all that it has computed for ``held``; it calls ``fn``.

    Nothing happens to any other executor, or to one that has begun. Whether it begins now.
    """
    if not isinstance(executor, _Processes) or not executor.waits:
        return False
    executor.begin(held, fn)
    return True


GRACE_SECONDS = 1.0
"""Seconds that a task has for its clean-up before its process ends."""


def _watch(parent: Connection) -> None:
    """Wait until the parent closes its end of the pipe, or is gone. Then end the running task, and the process."""
    with suppress(EOFError, OSError):
        parent.recv_bytes()
    # Nobody is left to read an error message.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # A notebook's standard error is not a file: a forked process's output there appears in the cell.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # open until the process is over
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
    os._exit(1)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _start(parent: Connection, parents: Connection | None, begun: Any) -> None:
    """Begin a worker: it ends with its parent, cleans up when it is ended, and leaves an interrupt of the terminal to its parent.

    It says that it has ``begun``. ``parents`` is the parent's end of the pipe if the worker has it too, as a forked one does: the pipe
    closes when no process has it.
    """
    collect_rarely()
    begun.set()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    if parents is not None:
        parents.close()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


_SWITCHED = 1e-4
"""Seconds after which a working thread lets another one run: calls and answers pass through threads of their own.

With Python's own 5 milliseconds, two processes waited a third of the time for calls that took 7 milliseconds each.
"""


@contextmanager
def _often_switched() -> Iterator[None]:
    """Let threads that pass on calls and answers run soon while this process works."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCHED)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


LATE = 2
"""Number of processes of which the second one may begin late.

Forms share their prices. A second process that planned its own half of the forms computed most prices again.
"""


@contextmanager
def workers(processes: int, *, takes_part: bool = False, late: bool = False) -> Iterator[Executor]:
    """An executor of ``processes`` processes; 1 works in this one. No answer depends on it.

    If this process ``takes_part`` it is one of them: it works when :func:`in_order` asks for answers. With ``late`` too, the other one of
    two processes starts at :func:`begin`, where processes can be copies of this one.

    The processes end when this block or this process ends, for any reason. InputError if one of them dies.
    """
    with rarely_collected(), _often_switched(), _executor(processes, takes_part=takes_part, late=late) as executor:
        yield executor


def _may_fork() -> bool:
    """Whether processes may be copies of this one, with all modules imported. Otherwise they start from scratch, and import for some 0.4 s.

    Only Linux promises that its libraries work in a copy. A thread that is not a daemon belongs to another program, and may hold any lock.
    """
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    return sys.platform == "linux" and all(thread.daemon for thread in others)


_NEVER_BEGAN = (
    'The worker processes ended before they began, as they import the script that starts them: write what it does below `if __name__ == "'
    '__main__":`, or ask for one process (processes=1).'
)
"""Fault of a script on macOS and Windows, where a new process begins with the imports of the old one."""


_ending: list[threading.Thread] = []
"""Threads that wait for processes to end."""


def wait_until_ended() -> None:
    """Wait until the idle processes of earlier blocks have ended: while they end, new processes cannot be copies of this one."""
    while _ending:
        _ending.pop().join()


# Python up to 3.12 prints a traceback if a process ends while Python wakes the threads of its executors, which it does before atexit.
# The last function that is registered here runs first.
getattr(threading, "_register_atexit", atexit.register)(wait_until_ended)


@contextmanager
def _executor(processes: int, *, takes_part: bool, late: bool) -> Iterator[Executor]:
    """Like :func:`workers`."""
    if processes == 1:
        yield _Here()
        return
    if getattr(current_process(), "_inheriting", False):
        # This is a worker that imports the script which starts workers, as its own main module. Its parent decides what it does.
        raise SystemExit(1)
    wait_until_ended()
    forks = _may_fork()
    context = get_context("fork" if forks else "spawn")
    theirs, ours = context.Pipe(duplex=False)
    begun = context.Event()
    terms = theirs, ours if forks else None, begun
    others = [ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=terms) for _ in range(processes - takes_part)]
    pool = _Processes([_Here(), *others] if takes_part else others, late=late and takes_part and forks and processes == LATE)
    finished = False
    try:
        yield pool
        finished = True
    except BrokenProcessPool:
        if not begun.is_set():
            raise InputError(_NEVER_BEGAN) from None
        raise InputError(f"One of {processes} worker processes was ended from outside, perhaps for its memory: try --jobs 1.") from None
    finally:
        if not finished:
            # After an error no caller waits for running calls.
            ours.close()
        # Idle processes end while the caller continues.
        ending = threading.Thread(target=partial(pool.shutdown, cancel_futures=True), daemon=True)
        ending.start()
        _ending.append(ending)
        if not finished:
            wait_until_ended()
        ours.close()
        theirs.close()
