"""Tolerance: the smallest schedule that is nearly as fast as the fastest, and the savings of slightly slower ones."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from msgspec import Struct

from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.task import Point, Size

MUCH, LITTLE = Fraction(1, 20), Fraction(1, 100)
"""Share of the bytes that a slower schedule must save to be named, and share of the cycles that it may take more."""


class Tolerance(Struct, frozen=True):
    """The ``share`` of the fastest schedule's cycles that the smallest one may take more, but no more than ``most_cycles`` in all."""

    share: Fraction = Fraction(0)
    most_cycles: int | None = None

    def cycles(self, fastest: int) -> int:
        """The most cycles that are tolerated next to a schedule of ``cycles``.

        >>> Tolerance(Fraction(1, 100)).cycles(1050), Tolerance(Fraction(1, 100), 1055).cycles(1050)
        (1060, 1055)
        """
        limit = int(fastest * (1 + self.share))
        return limit if self.most_cycles is None else max(fastest, min(limit, self.most_cycles))


def smallest_within(points: Iterable[Point], tolerance: Tolerance) -> tuple[Point, Point]:
    """The smallest of some schedules that takes at most the tolerated cycles, and the fastest.

    >>> points = [Point(700, 5100, 0, None), Point(800, 5020, 0, None), Point(1000, 5000, 0, None)]
    >>> [(one.memory, one.cycles) for one in smallest_within(points, Tolerance(Fraction(1, 100)))]
    [(800, 5020), (1000, 5000)]
    """
    some = tuple(points)
    fastest = min(some, key=lambda one: (one.cycles, one.memory))
    target = tolerance.cycles(fastest.cycles)
    return min((one for one in some if one.cycles <= target), key=lambda one: (one.memory, one.cycles)), fastest


def worth_a_tolerance(chosen: Point | Size, known: Iterable[Replayed | Size]) -> Size | None:
    """The smallest schedule that saves :data:`MUCH` and costs :data:`LITTLE` relative to the fastest; None if no schedule does.

    >>> worth_a_tolerance(Size(1000, 5000), [Size(960, 5000), Size(800, 5020), Size(700, 5100)])
    Size(memory=800, cycles=5020)
    """
    some = [one for one in known if one.memory <= chosen.memory * (1 - MUCH) and one.cycles <= chosen.cycles * (1 + LITTLE)]
    least = min(some, key=lambda one: (one.memory, one.cycles), default=None)
    return None if least is None else Size(least.memory, least.cycles)
