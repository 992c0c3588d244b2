"""Shared arguments: large ones of calls, which a process is sent once and has as long as not too many others come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

MOST_SHARED = 16
"""Shared arguments that a process has at most, with all that it has worked out for them: more than a network has forms.

Of hps_vgg's twelve forms a process that had eight planned some again and again.
"""


@runtime_checkable
class SharedArgument(Protocol):
    """An argument that is large. ``label`` tells it from all others, :meth:`packed` is a function and bytes that it makes the same of."""

    label: str

    def packed(self) -> tuple[Callable[[bytes], object], bytes]:
        """A function that can be pickled, and the bytes for it."""


class SharedArguments:
    """Shared arguments by their labels: those that came last. Who sends counts them as who receives does, so that both have the same."""

    def __init__(self) -> None:
        self._there: OrderedDict[str, object] = OrderedDict()

    def has(self, label: str) -> bool:
        """Whether an argument is there."""
        return label in self._there

    def take(self, label: str, make: Callable[[], object]) -> object:
        """An argument, made if it is not there; it is the last one that came then, and the first one has to go."""
        if label not in self._there:
            self._there[label] = make()
        self._there.move_to_end(label)
        if len(self._there) > MOST_SHARED:
            self._there.popitem(last=False)
        return self._there[label]


class _Sent(Struct, frozen=True):
    """A shared argument on its way; without ``content`` it is there already."""

    label: str
    content: tuple[Callable[[bytes], object], bytes] | None

    def __reduce__(self) -> tuple[object, ...]:
        """It is unpacked where it arrives."""
        return unpacked, (self.label, self.content)


_HERE = SharedArguments()
"""The shared arguments that this process was sent."""


def unpacked(label: str, content: tuple[Callable[[bytes], object], bytes] | None) -> object:
    """The shared argument in this process."""

    def made() -> object:
        assert content is not None  # noqa: S101  # the sender has counted as we do
        make, packed = content
        return make(packed)

    return _HERE.take(label, made)


def sent(argument: Any, there: SharedArguments) -> Any:
    """An argument as it is sent to a process that has those."""
    if not isinstance(argument, SharedArgument):
        return argument
    on_its_way = _Sent(argument.label, None if there.has(argument.label) else argument.packed())
    there.take(argument.label, lambda: None)
    return on_its_way
