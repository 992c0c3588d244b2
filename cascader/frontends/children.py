"""Processes that we start for foreign code: each ends when we do, whatever ended us, and takes its folder along."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cascader.frontends import parent_watch

GUARD = Path(parent_watch.__file__).read_text(encoding="utf-8")
"""For a child that runs a text: the definition of :func:`end_with_parent`."""

LIMITS = """
try:
    import resource
    for limit, value in zip((resource.RLIMIT_AS, resource.RLIMIT_CPU), sys.argv[1:3]):
        resource.setrlimit(limit, (int(value), resource.getrlimit(limit)[1]))
except (ImportError, ValueError, OSError):
    pass
del sys.argv[1:3]
"""
"""For a child that runs a text: it takes its first two words as the most bytes of address space and seconds of CPU time, where it can."""


def nothing() -> None:
    """Nothing is done meanwhile."""


def run_child(
    command: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    meanwhile: Callable[[], object] = nothing,
) -> subprocess.CompletedProcess[str]:
    """Run a command that calls :func:`end_with_parent` in ``folder``, with what it prints as text; ``meanwhile`` is called once it runs.

    Whatever is raised here (TimeoutExpired after ``timeout`` seconds, OSError, an interrupt), the child has ended. Its time begins when
    it does, whatever is done meanwhile.
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
                # A child that has ended by now was in time: what it has said is there.
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
