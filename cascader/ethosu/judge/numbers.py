"""Numbers for keys of integers, in an array in which the compiled core looks them up."""

from __future__ import annotations

from array import array

from npu_model.native import native

_NATIVE = native("cascader.ethosu")
_LINES = 256
"""Initial number of lines of the array, a power of two."""


class Numbers:
    """A number of 0 or more for each key of ``width`` integers. The core reads ``table``, of which at most half is taken."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._known: dict[bytes, int] = {}
        self.table = self._empty(_LINES)

    def _empty(self, lines: int) -> array[int]:
        return array("q", [-1]) * (lines * (self._width + 1))

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: array[int]) -> bool:
        """Whether a key has a number."""
        return key.tobytes() in self._known

    def add(self, key: array[int], number: int) -> None:
        """Keep the number of a new key."""
        added = [(key.tobytes(), number)]
        self._known.update(added)
        lines = len(self.table) // (self._width + 1)
        if 2 * len(self._known) > lines:
            self.table = self._empty(2 * lines)
            added = list(self._known.items())
        assert _NATIVE is not None  # noqa: S101  # whoever has a table has the core
        for one, value in added:
            _NATIVE.number_add(self.table, memoryview(one).cast("q"), value)
