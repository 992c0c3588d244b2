"""Bootstrap: how much the fitted values and the mean error depend on the choice of measurements."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ceil, floor

from msgspec import Struct

from validation.calibrate.fit import TIE, Notches, Problem
from validation.calibrate.solver import bounded_step
from validation.fvp.scores import mean_error

RESAMPLES = 1000
COVERAGE = 0.95


class Interval(Struct, frozen=True):
    """A percentile interval of :data:`COVERAGE`."""

    low: float
    high: float


class Bootstrap(Struct, frozen=True):
    """Intervals of every fitted parameter, in their order, and of the mean absolute error; ``seed`` repeats them.

    ``within_noise`` are the minima that the draws cannot tell from the fit, each with the number of draws that it suits best. The first
    one is the fit.
    """

    seed: int
    parameters: tuple[Interval, ...]
    mean_error: Interval
    within_noise: tuple[tuple[Notches, int], ...]


def outwards(low: float, high: float) -> tuple[int, int]:
    """The notches around an interval, so that rounding never excludes a value. The sixth decimal place is left to mathematics libraries."""
    return floor(round(low, 6)), ceil(round(high, 6))


def _interval(values: Sequence[float]) -> Interval:
    ordered = sorted(values)
    tail = round(len(ordered) * (1 - COVERAGE) / 2)
    return Interval(ordered[tail], ordered[-1 - tail])


def bootstrap(problem: Problem, minima: Sequence[Notches], seed: int) -> Bootstrap:
    """Draw measurements with replacement :data:`RESAMPLES` times; each draw goes to its best minimum of the fit.

    ``minima`` are the fit's minima, with the fit itself first. Near each minimum, the linear model of errors and slopes is solved. No draw
    is replayed, so the intervals ignore curvature. They end at values of the grid, and every interval includes each minimum within the
    noise: one that equals the fit, or that at least a tail of the draws goes to.
    """
    # These are statistics, not secrets; random.Random gives the same draws on every Python version.
    draws = random.Random(seed)  # noqa: S311
    models = [(point, problem.errors(point), problem.slopes(point), problem.room(point)) for point in minima]
    first = models[0][1]
    reached: list[list[float]] = [[] for _ in problem.parameters]
    means, suits = [], [0] * len(models)
    for _ in range(RESAMPLES):
        drawn = draws.choices(range(len(first)), k=len(first))
        means.append(mean_error(first[i] for i in drawn))
        ends = []
        for point, errors, slopes, room in models:
            there, steep = [errors[i] for i in drawn], [slopes[i] for i in drawn]
            step = bounded_step(steep, there, *room)
            left = [error + sum(a * b for a, b in zip(row, step, strict=True)) for error, row in zip(there, steep, strict=True)]
            ends.append((sum(error * error for error in left), [notch + moved for notch, moved in zip(point, step, strict=True)]))
        # The first of equal ones is the fit.
        best = min(range(len(ends)), key=lambda number: (ends[number][0], number))
        suits[best] += 1
        for values, value in zip(reached, ends[best][1], strict=True):
            values.append(value)
    cost = problem.cost(minima[0])
    tail = RESAMPLES * (1 - COVERAGE) / 2
    close = [(point, draws) for point, draws in zip(minima, suits, strict=True) if draws >= tail or problem.cost(point) <= cost + TIE]
    intervals = []
    for j, parameter in enumerate(problem.parameters):
        found = _interval(reached[j])
        notches = [point[j] for point, _ in close]
        around = outwards(min(found.low, *notches), max(found.high, *notches))
        intervals.append(Interval(*(float(parameter.value(end)) for end in around)))
    return Bootstrap(seed, tuple(intervals), _interval(means), tuple(close))
