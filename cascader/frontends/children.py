"""Child processes that run foreign code. A child ends when this process ends, for any reason, and its folder is removed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cascader.frontends import parent_watch

GUARD = Path(parent_watch.__file__).read_text(encoding="utf-8")
"""The source text of :func:`end_with_parent`, for a child that runs a program text."""

LIMITS = """
try:
    import resource
    for limit, value in zip((resource.RLIMIT_AS, resource.RLIMIT_CPU), sys.argv[1:3]):
        resource.setrlimit(limit, (int(value), resource.getrlimit(limit)[1]))
except (ImportError, ValueError, OSError):
    pass
del sys.argv[1:3]
"""
"""For a child that runs a program text: it limits its address space (first word, bytes) and its CPU time (second word, seconds) where the
system can.
"""


def nothing() -> None:
    """The default of ``meanwhile``: it does nothing."""


def run_child(
    command: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    meanwhile: Callable[[], object] = nothing,
) -> subprocess.CompletedProcess[str]:
    """Run a command that calls :func:`end_with_parent` in ``folder``, and return its output as text.

    ``meanwhile`` is called once the command runs.

    The child has ended when this function returns or raises (TimeoutExpired after ``timeout`` seconds, OSError, an interrupt). The timeout
    counts from the start of the child, so it includes the time of ``meanwhile``.
    """
    deadline = time.monotonic() + timeout
    standard_input, kept = os.pipe()
    try:
        with subprocess.Popen(  # noqa: S603  # callers give a list of words that they have checked, and no shell reads it
            command,
            cwd=folder,
            env=environment,
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            try:
                meanwhile()
                # A child that has ended by now was in time: its output is there.
                left = timeout if process.poll() is not None else max(deadline - time.monotonic(), 0)
                output, errors = process.communicate(timeout=left)
            except BaseException:
                # Whoever leaves the block waits for the child.
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)
    finally:
        os.close(standard_input)
        os.close(kept)
