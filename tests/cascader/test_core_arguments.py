"""The compiled cores refuse arrays that are none of theirs: empty ones, zeros, and numbers that overflow; no call ends the process."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from npu_model.native import PACKAGES, native

MOST_ARGUMENTS = 13
HUGE = (1 << 62, -(1 << 62), (1 << 63) - 1)
CONTENTS: dict[str, Callable[[int], Any]] = {
    "empty": lambda _: array("q"),
    "one zero": lambda _: array("q", [0]),
    "zeros": lambda _: array("q", [0] * 64),
    "minus ones": lambda _: array("q", [-1] * 64),
    "ones": lambda _: array("q", [1] * 64),
    "huge": lambda number: array("q", [HUGE[number % 3]] * 64),
}
REFUSED = (TypeError, ValueError, OverflowError, MemoryError, IndexError, BufferError)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each call is made in a process of its own")


def functions() -> Iterator[Any]:
    for package in PACKAGES:
        core = native(package)
        for name in sorted(vars(core)) if core else ():
            if callable(getattr(core, name)) and not name.startswith("_"):
                yield pytest.param(package, name, id=f"{package}.{name}")


def calls(content: str) -> Iterator[tuple[Any, ...]]:
    """Arguments of every number: arrays alone, and with an integer, bytes or a list at either end."""
    for count in range(MOST_ARGUMENTS + 1):
        arrays = [CONTENTS[content](number) for number in range(count)]
        yield tuple(arrays)
        for other in (0, 1, b"", b"\\x00" * 64, [], [arrays[0]] if arrays else []):
            yield (other, *arrays)
            yield (*arrays, other)
            for place in range(1, min(count, 6)):
                yield (*arrays[:place], other, *arrays[place:])
        yield (b"", 0, *arrays)
        yield (b"\\x00" * 64, 1 << 40, *arrays)


def ended(function: Any, content: str) -> int:
    """Calls made in a process of its own; its status, negative if a signal ended it, 99 if it raised what is no refusal."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            for arguments in calls(content):
                with suppress(*REFUSED):
                    function(*arguments)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize(("package", "name"), list(functions()))
def test_arrays_that_are_none_of_a_cores_own_end_no_process(package: str, name: str, content: str) -> None:
    assert ended(getattr(native(package), name), content) == 0
