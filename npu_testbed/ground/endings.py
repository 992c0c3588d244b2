"""The end of a command: its exit status, and the one sentence on standard error that says why."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

from npu_model.errors import InputError
from npu_model.front import later
from npu_model.printable import printable
from npu_model.version import VERSION
from npu_testbed.ground.output import Output, OutputError

with later():
    # A mistake of ours is rare, and these imports take a while.
    import platform
    import tempfile
    import traceback

AS_VELA = 1
"""Vela's exit status on a failure, and so `compile`'s."""
BAD_INPUT = 2
"""Bad input, or a request that the system does not allow."""
INTERNAL_ERROR = 70
"""A bug of ours; the EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE, as shells report it."""

_SENTENCE = 2000
"""Characters of a sentence that are printed."""


class VelaStatusError(InputError):
    """Bad input on which Vela exits with :data:`AS_VELA`. A build may test for that status, so `compile` exits with it, too."""


def prepare_streams() -> None:
    """Make standard streams escape characters that a terminal cannot show: names in a model are any text."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def safe_output() -> Iterator[None]:
    """Within, standard output is an :class:`Output`, which is flushed at the end. There may be no standard output at all."""
    if sys.stdout is None:
        yield
        return
    output = Output(sys.stdout)
    with redirect_stdout(output):
        yield
    output.flush()


def abandon_output() -> None:
    """Drop buffered output. At exit, Python would write it again and fail again, with a traceback."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def say(kind: str, sentence: str) -> None:
    """Print one line on standard error; ignore a failure to print."""
    with suppress(OSError, ValueError):
        print(f"npu-testbed: {kind}: {printable(' '.join(sentence.split()), _SENTENCE)}", file=sys.stderr, flush=True)  # noqa: T201  # this is where errors go


def refuse(sentence: str, status: int = BAD_INPUT) -> int:
    """Print the error in the input; return the exit status."""
    say("error", sentence)
    return status


def refuse_output(error: OutputError) -> int:
    """Print that standard output cannot be written; return the exit status."""
    abandon_output()
    return refuse(f"Standard output cannot be written ({error.reason}): make room, or send it elsewhere.")


def system_sentence(error: OSError) -> str:
    """The sentence on a request that the system refused."""
    reason = str(error.strerror or error).lower()
    name = f" at {os.fsdecode(error.filename)!r}" if isinstance(error.filename, (str, bytes)) else ""
    return f"The system refused an operation{name} ({reason}): check the free space and the rights there, TMPDIR's included."


def refuse_system_error(error: OSError) -> int:
    """Print the system's refusal; return the exit status."""
    return refuse(system_sentence(error))


def memory_sentence() -> str:
    """The sentence on a lack of memory."""
    return "The command needs more memory than it may have: check the input's sizes, try --jobs 1, or raise the limit."


def refuse_memory_error() -> int:
    """Print that memory did not suffice; return the exit status."""
    return refuse(memory_sentence())


def _report(error: BaseException) -> str:
    """The path of the traceback's file."""
    text = "".join(traceback.format_exception(error))
    about = f"npu-testbed {VERSION}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv!r}\n\n"

    descriptor, path = tempfile.mkstemp(prefix="npu-testbed-error-", suffix=".txt", text=True)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(about + text)
    return path


def report_bug(error: Exception) -> int:
    """Write the traceback to a file, ask for a report and return the exit status."""
    what = f"{type(error).__name__} ({printable(str(error)) or 'no message'})"
    try:
        where = f"please report it with the file {_report(error)!r}"
    except OSError:
        with suppress(OSError, ValueError):
            traceback.print_exception(error, file=sys.stderr)
        where = "please report it with the lines above"
    say("internal error", f"{what}: this is a mistake in npu-testbed, not in its input; {where}.")
    return INTERNAL_ERROR
