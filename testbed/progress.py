"""Progress on a terminal: what is being done and for how long, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from npu_model.printable import printable

Progress = Callable[[str], None]
"""Told what is being done now."""


def silent(_doing: str) -> None:
    """Progress that nobody watches."""


@contextmanager
def progress() -> Iterator[Progress]:
    """A function that shows what is being done now, with the seconds since; silent unless standard error is a terminal."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console  # noqa: PLC0415  # its start-up is paid only where it is seen
    from rich.progress import Progress as Bar  # noqa: PLC0415  # the same
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415  # the same

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(doing: str) -> None:
            bar.reset(task, description=printable(doing))

        yield show
