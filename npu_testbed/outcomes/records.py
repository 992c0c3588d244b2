"""Records: values of one kind as a table for dictionaries, pandas and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

from msgspec import to_builtins

from npu_model.errors import InputError
from validation.layout import grid

T = TypeVar("T")


class Records(Sequence[T], Generic[T]):
    """A sequence of values, also as a table with one row for each value.

    ``entry`` makes the fields of a row: a Struct or a dictionary (default: the value itself).

    >>> from msgspec import Struct
    >>> class Point(Struct):
    ...     bytes: int
    ...     cycles: int
    >>> rows = Records([Point(512, 90), Point(640, 70)])
    >>> len(rows), rows[-1].cycles, rows.to_dict()
    (2, 70, {'bytes': [512, 640], 'cycles': [90, 70]})
    """

    def __init__(self, values: Sequence[T], entry: Callable[[T], Any] | None = None) -> None:
        self._values = tuple(values)
        self._entry = entry

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Records[T]: ...
    def __getitem__(self, index: int | slice) -> T | Records[T]:
        if isinstance(index, slice):
            return Records(self._values[index], self._entry)
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns by name; None in a row without the column's value."""
        rows = [to_builtins(one if self._entry is None else self._entry(one)) for one in self._values]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``; InputError if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise InputError("A DataFrame needs pandas, which is not installed: `pip install pandas`, or take to_dict().") from None
        return pandas.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        return f"<{len(self)} rows: {', '.join(self.to_dict())}>" if self else "<0 rows>"

    def __str__(self) -> str:
        columns = self.to_dict()
        rows = [tuple(str(value) for value in row) for row in zip(*columns.values(), strict=True)]
        return grid(tuple(columns), rows, (False,) * len(columns))

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"
