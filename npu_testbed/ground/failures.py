"""Work on many networks, in which one failure must not lose the results of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable

T = TypeVar("T")

_REASON = 1000
"""Characters of a reason that are shown."""


class Failure(Struct, frozen=True):
    """A task that failed: its kind, its network, its accelerator, and the reason."""

    network: str
    accelerator: str
    what: str
    error: Exception

    @property
    def reason(self) -> str:
        """One sentence; it names the error if the input did not cause it."""
        if isinstance(self.error, InputError):
            return printable(" ".join(str(self.error).split()), _REASON)
        said = printable(" ".join(str(self.error).split()), _REASON).rstrip(".")
        return f"Internal error {type(self.error).__name__}: {said or 'no message'}."

    @property
    def sentence(self) -> str:
        """The reason, with the task and the network."""
        return f"{self.what} of {printable(self.network)} on {self.accelerator} failed: {self.reason}"


def attempt(work: Callable[[], T], network: str, accelerator: str, what: str) -> T | Failure:
    """The result of ``work``, or its failure; ``what`` is a noun, such as "The comparison".

    >>> attempt(lambda: 1, "n", "a", "The count")
    1
    >>> attempt(lambda: 1 // 0, "n", "a", "The count").sentence
    'The count of n on a failed: Internal error ZeroDivisionError: integer division or modulo by zero.'
    """
    try:
        return work()
    except Exception as error:  # noqa: BLE001  # a run takes hours: whatever fails in one network, the others' results are kept
        return Failure(network, accelerator, what, error)


def parted(outcomes: Iterable[T | Failure]) -> tuple[tuple[T, ...], tuple[Failure, ...]]:
    """The results, and the failures."""
    found = list(outcomes)
    return tuple(one for one in found if not isinstance(one, Failure)), tuple(one for one in found if isinstance(one, Failure))
