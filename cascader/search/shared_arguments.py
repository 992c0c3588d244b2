"""Shared arguments: large arguments of calls. A process gets each of them once and keeps it until too many others arrive."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

MOST_SHARED = 16
"""The most shared arguments in a process, with all results computed for them: more than a network has forms.

A process that had eight of hps_vgg's twelve forms planned some again and again.
"""


@runtime_checkable
class SharedArgument(Protocol):
    """A large argument. ``label`` distinguishes it from all others; :meth:`packed` gives a function and bytes that recreate it."""

    @property
    def label(self) -> str:
        """A name that no other argument has."""

    def packed(self) -> tuple[Callable[[bytes], object], bytes]:
        """A function that can be pickled, and the bytes for it."""


class SharedArguments:
    """Shared arguments by their labels, the most recent ones. Sender and receiver count them in the same way, so both have the same."""

    def __init__(self) -> None:
        self._there: OrderedDict[str, object] = OrderedDict()

    def has(self, label: str) -> bool:
        """Whether the argument is present."""
        return label in self._there

    def take(self, label: str, make: Callable[[], object]) -> object:
        """An argument, made if it is missing. It is then the most recent one, and the oldest one is dropped."""
        if label not in self._there:
            self._there[label] = make()
        self._there.move_to_end(label)
        if len(self._there) > MOST_SHARED:
            self._there.popitem(last=False)
        return self._there[label]

    def drop(self, label: str) -> None:
        """Forget an argument."""
        self._there.pop(label, None)


class _Sent(Struct, frozen=True):
    """A shared argument on its way; without ``content`` the receiver has it already."""

    label: str
    content: tuple[Callable[[bytes], object], bytes] | None

    def __reduce__(self) -> tuple[object, ...]:
        """It is unpacked on arrival."""
        return unpacked, (self.label, self.content)


_HERE = SharedArguments()
"""The shared arguments that this process has received."""


def unpacked(label: str, content: tuple[Callable[[bytes], object], bytes] | None) -> object:
    """The shared argument in this process."""

    def made() -> object:
        assert content is not None  # noqa: S101  # the sender has counted as we do
        make, packed = content
        return make(packed)

    return _HERE.take(label, made)


def sent(argument: Any, there: SharedArguments) -> Any:
    """An argument in the form that is sent to a process with the given arguments."""
    if not isinstance(argument, SharedArgument):
        return argument
    on_its_way = _Sent(argument.label, None if there.has(argument.label) else argument.packed())
    there.take(argument.label, lambda: None)
    return on_its_way


@contextmanager
def inherited(held: Iterable[SharedArgument], there: Iterable[SharedArguments]) -> Iterator[None]:
    """A block in which new processes start as copies of this one. They have the arguments that are ``held``, as noted ``there``."""
    listed = list(held)
    for argument in listed:
        _HERE.take(argument.label, partial(_same, argument))
        for noted in there:
            noted.take(argument.label, lambda: None)
    try:
        yield
    finally:
        for argument in listed:
            _HERE.drop(argument.label)


def _same(argument: SharedArgument) -> SharedArgument:
    return argument
