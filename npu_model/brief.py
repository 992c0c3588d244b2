"""Values whose text leaves fields out: bytes and whole networks would fill pages."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class Brief(Struct, frozen=True):
    """A value whose text shows every field except those in ``unshown`` of its class.

    >>> class Named(Brief, frozen=True):
    ...     unshown = ("content",)
    ...
    ...     name: str
    ...     content: bytes
    >>> Named("weights", bytes(1_000_000))
    Named(name='weights')
    """

    unshown: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.unshown)
        return f"{type(self).__name__}({', '.join(shown)})"


class Noted(Brief, frozen=True):
    """A value with notes: fields in ``notes`` of its class do not count for equality."""

    notes: ClassVar[tuple[str, ...]] = ()

    def _facts(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.notes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())
