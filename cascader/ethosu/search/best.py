"""The best schedule so far, which a search that is stopped before its end has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.search import nothing_known
from cascader.ethosu.search.task import Candidate, Choice, Point, Price, Seen, Task, unseen
from npu_model.errors import InputError


@dataclass(slots=True)
class Best:
    """The best of what was replayed, by bytes first with ``smallest``, in at most ``budget`` bytes (None: any number).

    ``seen`` is told of each schedule that is better than those before. If it is :func:`unseen`, no candidate is replayed for it.
    """

    task: Task
    budget: int | None
    smallest: bool
    seen: Seen
    points: dict[int, Point] = field(default_factory=dict)
    """Replayed candidates, by the identity of their schedules."""
    least_cycles: int | None = None
    price: Price | None = None
    """Prices by which replayed schedules are ranked in place of their cycles (None: they are not)."""
    _prices: dict[int, tuple[Point, float]] = field(default_factory=dict)
    _rank: tuple[float, ...] = (inf, inf)
    _expected: tuple[float, ...] = (inf, inf)

    def rank(self, made: Point | Candidate) -> tuple[float, ...]:
        """Sort key of which the best has the least: cycles and then bytes, or with ``smallest`` bytes and then cycles.

        A price comes before both. What is not replayed yet has none.
        """
        order = (made.memory, made.cycles) if self.smallest else (made.cycles, made.memory)
        return order if self.price is None or not isinstance(made, Point) else (self._priced(made, self.price), *order)

    def _priced(self, point: Point, price: Price) -> float:
        """The price of a point, asked for once. InputError if it is no finite number."""
        if id(point) not in self._prices:
            found = price(point)
            if not isinstance(found, (int, float)) or not isfinite(found):
                raise InputError(f"The cost of a schedule is {found!r}: a finite number is needed, of which the least is wanted.")
            # The point is kept, too: another one has not its identity then.
            self._prices[id(point)] = point, float(found)
        return self._prices[id(point)][1]

    def known(self) -> int:
        """Cycles of the best that was replayed; more than anything takes if there is none, or if it is not cycles that count."""
        counts = not self.smallest and self.price is None and self._rank[0] < inf
        return int(self._rank[0]) if counts else nothing_known()

    def fits(self, candidate: Candidate) -> bool:
        """Whether the candidate's arena is within the budget."""
        return self.budget is None or candidate.memory <= self.budget

    def begin(self) -> None:
        """Replay the network layer by layer, for a first schedule after a moment."""
        task = self.task
        whole = schedule_layer_by_layer(task.network, task.accelerator, provenance=task.provenance)
        self.took(Candidate(whole, task.replay(lower(whole, checked=False))))

    def came(self, candidate: Candidate) -> None:
        """Replay a candidate that promises more than all before it."""
        order = self.rank(candidate)
        if self.seen is not unseen and self.fits(candidate) and order < self._expected:
            self._expected = order
            cycles = self.task.replay(lower(candidate.schedule, checked=False))
            self.points[id(candidate.schedule)] = Point(candidate.memory, cycles, candidate.cycles, candidate.schedule)
            self.take(self.points[id(candidate.schedule)])

    def took(self, whole: Candidate) -> None:
        """Take a candidate whose cycles are those of a replay."""
        if self.fits(whole):
            self.take(Point(whole.memory, whole.cycles, whole.cycles, whole.schedule))

    def take(self, point: Point) -> None:
        """Take a replayed schedule that fits."""
        order = self.rank(point)
        if order < self._rank:
            self._rank = order
            self.seen(Choice(point, self.least_cycles))
