"""Contest: changes of a draft, each replayed beside the best so far, until it is known which one is better."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from msgspec import Struct

from cascader.draft.draft import Draft, Lines
from cascader.ethosu.judge.tables import Issued

Score = tuple[int, int]
"""Cycles of a draft, and the sum of the cycles at which its operations end.

The last operations often wait for a memory's next period, which hides what earlier ones gain. Of two drafts that take equally many cycles,
the one whose operations end earlier needs the smaller further gain.
"""

_ROW = 7
_KERNEL = 0


class ProgramRun(Struct, frozen=True, eq=False):
    """A replayed Program: its operations, its cycles, and the lines of :meth:`~cascader.ethosu.judge.replay.FlatReplay.timed`."""

    issued: Issued
    cycles: int
    times: array[int]

    @property
    def ends(self) -> Lines:
        """The cycle at which each operation ends, -1 of a wait."""
        lines = np.frombuffer(self.times, dtype=np.int64).reshape(-1, 3)
        found = np.full(len(lines), -1, dtype=np.int64)
        ended = lines[lines[:, 2] > 0]
        found[ended[:, 0]] = ended[:, 2]
        return found


class DraftRun(Struct, frozen=True, eq=False):
    """A replayed draft. It has no Programs if its replay is not flat."""

    score: Score
    programs: tuple[ProgramRun, ...] = ()


def same_at_end(one: Issued, two: Issued) -> int:
    """The number of operations at the end of two Programs that are the same in both.

    >>> rows = [[0, 9, 0, 0, 0, 0, 0], [4, 1, 0, 0, 0, 0, 0], [0, 9, 0, 0, 0, 0, 0]]
    >>> first, other, last = (memoryview(bytes(size)) for size in (1, 2, 3))
    >>> flat = array("q", [number for row in rows for number in row])
    >>> same_at_end(Issued(flat, [first, last]), Issued(flat, [other, last]))
    2
    """
    before, after = (np.frombuffer(some.rows, dtype=np.int64).reshape(-1, _ROW) for some in (one, two))
    least = min(len(before), len(after))
    before, after = before[len(before) - least :], after[len(after) - least :]
    differs = (before != after).any(axis=1)
    # Works are kept, so equal ones are one object.
    kernels = np.flatnonzero(after[:, 0] == _KERNEL)[::-1]
    for at, first, second in zip(kernels.tolist(), reversed(one.works), reversed(two.works), strict=False):
        if first is not second:
            differs[at] = True
            break
    return least - 1 - int(np.flatnonzero(differs)[-1]) if differs.any() else least


def ends_beside(known: ProgramRun, issued: Issued) -> array[int]:
    """The ends in a ``known`` Program of the operations that follow its last difference from another one; -1 of all others."""
    same, count = same_at_end(known.issued, issued), len(issued.rows) // _ROW
    found = np.full(count, -1, dtype=np.int64)
    if same:
        found[count - same :] = known.ends[-same:]
    return array("q", found.tobytes())


class Contest:
    """Compares changes of one draft with the best so far, in any replay: ``compared`` gives a better one's run."""

    def __init__(self, first: DraftRun, compared: Callable[[Draft, DraftRun], DraftRun | None]) -> None:
        self.best = first
        self._compared = compared

    def scores(self, drafts: Iterable[Draft]) -> Iterator[Score]:
        """The score of each draft that is better than the best before it; of any other draft the best's score."""
        for draft in drafts:
            self.best = self._compared(draft, self.best) or self.best
            yield self.best.score
