"""Thunks: results that are computed later, in this process or in another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Thunk(Struct, Generic[T], frozen=True):
    """A result that is computed later, such as a form. It can be pickled.

    A thunk with ``beside`` is computed at the same time as the results that others wait for.
    """

    make: Callable[[], T]
    beside: bool = False

    def __call__(self) -> T:
        """Compute the result."""
        return self.make()

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes that may compute it. The first process computes results that others wait for."""
        return range(min(1, processes - 1), processes) if self.beside else range(processes)


class Spread(Protocol):
    """Computes results, in this process or in others, and returns them in their order."""

    def __call__(self, thunks: Sequence[Thunk[T]], /) -> Iterable[T]:
        """All results."""


def one_by_one(thunks: Sequence[Thunk[T]], /) -> Iterator[T]:
    """Compute results in this process."""
    return (thunk() for thunk in thunks)
