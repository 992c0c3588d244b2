"""Processes that we start for foreign code: each ends when we do, whatever ended us, and takes its folder along."""

from __future__ import annotations

import inspect
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def end_with_parent(folder: str) -> None:
    """To be called first in a child: once its standard input ends, its folder is removed and it ends.

    :func:`run_child` holds the other end of that pipe, which the system closes when its process is gone.
    """
    # The source of this function is run by itself, so that all it needs is imported here.
    import os  # noqa: PLC0415
    import threading  # noqa: PLC0415

    def watch() -> None:
        while os.read(0, 1024):
            pass
        import shutil  # noqa: PLC0415  # a child that ends before its parent is spared it

        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


GUARD = f"{inspect.getsource(end_with_parent)}\n"
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
