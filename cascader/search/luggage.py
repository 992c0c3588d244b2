"""Luggage: large arguments of errands, which a process is sent once and keeps as long as not too many others come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

KEPT = 16
"""Pieces of luggage that a process keeps, with all that it has worked out for them: more than a network has forms.

Of hps_vgg's twelve forms a process that kept eight planned some again and again.
"""


@runtime_checkable
class Luggage(Protocol):
    """An argument that is large. ``label`` tells it from all others, :meth:`packed` is a function and bytes that it makes the same of."""

    label: str

    def packed(self) -> tuple[Callable[[bytes], object], bytes]:
        """A function that can be pickled, and the bytes for it."""


class Shelf:
    """Pieces of luggage by their labels: those that came last. Who sends has a shelf like that of who receives, and both look alike."""

    def __init__(self) -> None:
        self._there: OrderedDict[str, object] = OrderedDict()

    def has(self, label: str) -> bool:
        """Whether a piece is there."""
        return label in self._there

    def take(self, label: str, make: Callable[[], object]) -> object:
        """A piece, made if it is not there; it is the last one that came then, and the first one has to go."""
        if label not in self._there:
            self._there[label] = make()
        self._there.move_to_end(label)
        if len(self._there) > KEPT:
            self._there.popitem(last=False)
        return self._there[label]


class _Parcel(Struct, frozen=True):
    """Luggage on its way; without ``content`` it is there already."""

    label: str
    content: tuple[Callable[[bytes], object], bytes] | None

    def __reduce__(self) -> tuple[object, ...]:
        """It is unpacked where it arrives."""
        return unpacked, (self.label, self.content)


_HERE = Shelf()
"""The luggage that this process was sent."""


def unpacked(label: str, content: tuple[Callable[[bytes], object], bytes] | None) -> object:
    """The luggage in this process."""

    def made() -> object:
        assert content is not None  # noqa: S101  # the sender's shelf is like ours
        make, packed = content
        return make(packed)

    return _HERE.take(label, made)


def sent(argument: Any, shelf: Shelf) -> Any:
    """An argument as it is sent to a process whose shelf looks like that."""
    if not isinstance(argument, Luggage):
        return argument
    parcel = _Parcel(argument.label, None if shelf.has(argument.label) else argument.packed())
    shelf.take(argument.label, lambda: None)
    return parcel
