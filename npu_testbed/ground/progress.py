"""Progress on a terminal: the current work and its duration, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from npu_model.front import later
from npu_model.printable import printable

with later():
    from rich import console  # The start-up time is paid only where the output is visible.
    from rich import progress as bars

Progress = Callable[[str], None]
"""Callback for the current work."""


def silent(_doing: str) -> None:
    """Progress that is not shown."""


INTERVAL_SECONDS = 30.0
"""Outside a terminal, such as in a job's log, progress is printed at most once in this many seconds."""


def _lines() -> Progress:
    """Progress as lines on standard error; short work prints none."""
    start = said = monotonic()

    def show(doing: str) -> None:
        nonlocal said
        now = monotonic()
        if now - said >= INTERVAL_SECONDS:
            said = now
            print(f"npu-testbed: after {now - start:.0f} s: {printable(doing)}", file=sys.stderr, flush=True)  # noqa: T201  # this is where progress goes

    return show


@contextmanager
def progress() -> Iterator[Progress]:
    """A function that shows the current work and its seconds: always on a terminal, as an occasional line elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield silent if sys.stderr is None else _lines()
        return

    columns = (bars.SpinnerColumn(), bars.TextColumn("{task.description}", markup=False), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(doing: str) -> None:
            bar.reset(task, description=printable(doing))

        yield show
