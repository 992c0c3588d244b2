"""Thunks: things that are still to be made, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Thunk(Struct, Generic[T], frozen=True):
    """Something that is still to be made, such as a form; it can be pickled.

    A thunk with ``beside`` is made at the same time as the things that others wait for.
    """

    make: Callable[[], T]
    beside: bool = False

    def __call__(self) -> T:
        """Make it."""
        return self.make()

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes that may make it: the first one makes what others wait for."""
        return range(min(1, processes - 1), processes) if self.beside else range(processes)


class Spread(Protocol):
    """Makes some things, in this process or in others; they come in their order."""

    def __call__(self, thunks: Sequence[Thunk[T]], /) -> Iterable[T]:
        """All of them."""


def one_by_one(thunks: Sequence[Thunk[T]], /) -> Iterator[T]:
    """Make some things in this process."""
    return (thunk() for thunk in thunks)
