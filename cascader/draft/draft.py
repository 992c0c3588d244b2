"""Draft: an unfinished schedule as one flat value of 64-bit integers, which uses the numbers of a form's parts and tensors.

Drafts are made, changed, sent, compared and replayed in this form. A draft becomes a Schedule, with names, when it is reported.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.plan.depth_first import Group

Lines = npt.NDArray[np.int64]

GROUP, JOB, PLACE, COPY = 4, 6, 8, 4
"""Integers in a line of each table."""

WHOLE = -1
"""First and last row of a job that makes all rows."""

ADDRESS, ROWS, ROW_BYTES, SIZE, START, END, BUFFER, RANK = range(PLACE)
"""Fields of a tensor's place; ``cascader/ethosu/native/issue.c`` reads them, too."""

OUTSIDE = -1
"""Buffer number of a tensor without a buffer, because its home is not the arena."""


class Draft(Struct, frozen=True):
    """A schedule of the numbered form, as tables of 64-bit integers; ``cycles`` is the estimate.

    - ``groups``: a line for each part group, with the fields of :class:`~cascader.plan.depth_first.Group`.
    - ``jobs``: a line for each job in order: part, first and last (exclusive) row or twice :data:`WHOLE`, and height, width and depth of
      its block, 0 as long as none is chosen.
    - ``places``: a line for each tensor: its address, rows and bytes of a row of a rolling buffer (else 0), bytes of its buffer, first and
      last (exclusive) job of the buffer, the buffer's number in the order of birth, and the tensor's rank there. Of a tensor
      :data:`OUTSIDE` the arena only the address counts.
    - ``copies``: in the order of issue, a line for each part that reads a copy: the job before which it is issued, its address, the part
      whose constants it has, and the reader. That part's own line comes first.

    ``memory`` are the bytes of the arena, a multiple of 16. With ``shares`` a copy serves all parts that have the same constants.
    """

    groups: bytes
    jobs: bytes
    places: bytes
    copies: bytes
    memory: int
    cycles: int
    shares: bool = False
    form: int = 0

    @property
    def runs(self) -> tuple[int, bytes, bytes, bytes]:
        """The values that decide a replay. Drafts with equal values replay equally, even if their groups and estimates differ."""
        return self.form, self.jobs, self.places, self.copies

    @property
    def part_groups(self) -> tuple[Group, ...]:
        """The part groups."""
        return tuple(Group(*line) for line in lines(self.groups, GROUP).tolist())

    @property
    def copied(self) -> frozenset[int]:
        """Parts whose constants are copied, each for itself or for several parts."""
        return frozenset(lines(self.copies, COPY)[:, 2].tolist())

    @property
    def served(self) -> frozenset[int]:
        """Parts that read a copy."""
        return frozenset(lines(self.copies, COPY)[:, 3].tolist())

    @property
    def is_plain(self) -> bool:
        """Whether every part runs whole and reads its constants at home."""
        parts = lines(self.jobs, JOB)[:, 0]
        return not self.copies and len(parts) == len(set(parts.tolist()))


def lines(table: bytes, width: int) -> Lines:
    """A table as an array of lines; it cannot be written to."""
    return np.frombuffer(table, dtype=np.int64).reshape(-1, width)


def line(table: bytes, width: int, number: int) -> array[int]:
    """One line of a table. Reading it from an array of all lines takes several times longer.

    >>> list(line(table([(0, 4, 1, 0), (5, 5, 8, 0)], GROUP), GROUP, 1))
    [5, 5, 8, 0]
    """
    size = 8 * width
    return array("q", table[number * size : (number + 1) * size])


def table(some: Iterable[Iterable[int]] | Lines, width: int) -> bytes:
    """Some lines, read from a table.

    >>> lines(table([(0, 4, 1, 0), (5, 5, 8, 0)], GROUP), GROUP).tolist()
    [[0, 4, 1, 0], [5, 5, 8, 0]]
    """
    given = some if isinstance(some, np.ndarray) else np.array([tuple(line) for line in some], dtype=np.int64)
    return given.reshape(-1, width).tobytes()
