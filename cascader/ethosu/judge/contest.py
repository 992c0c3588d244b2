"""Contest: changes of a draft, each replayed beside the best so far, until it is known which one is better."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.ethosu.judge.tables import Issued

Score = tuple[int, int]
"""Cycles of a draft, and the sum of the cycles at which its operations end.

The last operations often wait for a memory's next period, which hides what earlier ones gain. Of two drafts that take equally many cycles,
the one whose operations end earlier needs the smaller further gain.
"""


class ProgramRun(Struct, frozen=True, eq=False):
    """A replayed Program: its operations, its cycles, and the lines of :meth:`~cascader.ethosu.judge.replay.FlatReplay.timed`.

    Other replays run beside it if it has a ``known`` one.
    """

    issued: Issued
    cycles: int
    times: array[int]
    known: object = None


class DraftRun(Struct, frozen=True, eq=False):
    """A replayed draft. It has no Programs if its replay is not flat."""

    score: Score
    programs: tuple[ProgramRun, ...] = ()


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
