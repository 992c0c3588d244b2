"""The best schedule so far. A search that is stopped early answers with it."""

from __future__ import annotations

from math import inf, isfinite

from msgspec import Struct

from cascader.draft.draft import Draft
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.request import unseen
from cascader.ethosu.search.search import nothing_known
from cascader.ethosu.search.task import Choice, OnPoint, Point, Price, Task
from npu_model.errors import InputError


class Best(Struct):
    """The best replayed schedule in at most ``budget`` bytes (None: in any number); with ``smallest``, bytes come first.

    ``seen`` is called with each better schedule. If it is ``unseen`` of a request, no draft is replayed for it.
    """

    task: Task
    budget: int | None
    smallest: bool
    seen: OnPoint
    replayed: dict[Draft, Replayed] = {}
    """Drafts that were replayed when they came."""
    least_cycles: int | None = None
    price: Price | None = None
    """Prices that rank replayed schedules in place of their cycles (None: cycles rank them)."""
    _prices: dict[Replayed, float] = {}
    _rank: tuple[float, ...] = (inf, inf)
    _expected: tuple[float, ...] = (inf, inf)

    def rank(self, made: Replayed) -> tuple[float, ...]:
        """The sort key; the best schedule has the least. It is cycles and then bytes, or with ``smallest`` bytes and then cycles.

        A price comes before both.
        """
        order = self._order(made.memory, made.cycles)
        return order if self.price is None else (self._priced(made, self.price), *order)

    def _order(self, memory: int, cycles: int) -> tuple[float, ...]:
        return (memory, cycles) if self.smallest else (cycles, memory)

    def _priced(self, made: Replayed, price: Price) -> float:
        """The price of a replayed draft, asked for once."""
        if made not in self._prices:
            self._prices[made] = _price(made.point(), price)
        return self._prices[made]

    def known(self) -> int:
        """Cycles of the best replayed schedule. If there is none, or if cycles do not count, more cycles than any schedule takes."""
        counts = not self.smallest and self.price is None and self._rank[0] < inf
        return int(self._rank[0]) if counts else nothing_known()

    def fits(self, draft: Draft) -> bool:
        """Whether the draft's arena is within the budget."""
        return self.budget is None or draft.memory <= self.budget

    def begin(self) -> None:
        """Replay the network layer by layer, for a first schedule after a moment."""
        task = self.task
        whole = schedule_layer_by_layer(task.network, task.accelerator, provenance=task.provenance)
        if self.budget is None or whole.arena_size <= self.budget:
            cycles = task.replay(lower(whole, checked=False))
            point, order = Point(whole.arena_size, cycles, cycles, whole), self._order(whole.arena_size, cycles)
            if self._is_better(order if self.price is None else (_price(point, self.price), *order)):
                self.seen(Choice(point, self.least_cycles))

    def came(self, form: Form, draft: Draft) -> None:
        """Replay a draft that is expected to beat all earlier ones."""
        order = self._order(draft.memory, draft.cycles)
        if self.seen is not unseen and self.fits(draft) and order < self._expected:
            self._expected = order
            self.replayed[draft] = Replayed(form, draft, form.judge(self.task.replay).cycles(draft))
            self.take(self.replayed[draft])

    def take(self, made: Replayed) -> None:
        """Take a replayed draft that fits."""
        if self._is_better(self.rank(made)) and self.seen is not unseen:
            self.seen(Choice(made.point(), self.least_cycles))

    def _is_better(self, order: tuple[float, ...]) -> bool:
        """Whether a sort key is less than all before it."""
        before, self._rank = self._rank, min(order, self._rank)
        return order < before


def _price(point: Point, price: Price) -> float:
    """The price of a point. InputError if it is not a finite number."""
    found = price(point)
    if not isinstance(found, (int, float)) or not isfinite(found):
        raise InputError(f"The cost of a schedule is {found!r}: return a finite number; the smallest one wins.")
    return float(found)
