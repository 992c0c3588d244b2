"""Bootstrap: how much the fitted values and the mean error depend on the choice of measurements."""

from __future__ import annotations

import random
from collections.abc import Sequence

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
    """Intervals of every fitted parameter, in their order, and of the mean absolute error; ``seed`` repeats them."""

    seed: int
    parameters: tuple[Interval, ...]
    mean_error: Interval


def _interval(values: Sequence[float]) -> Interval:
    ordered = sorted(values)
    tail = round(len(ordered) * (1 - COVERAGE) / 2)
    return Interval(ordered[tail], ordered[-1 - tail])


def bootstrap(problem: Problem, minima: Sequence[Notches], seed: int) -> Bootstrap:
    """Draw measurements with replacement :data:`RESAMPLES` times; each draw goes to its best minimum of the fit.

    ``minima`` are the fit's minima, with the fit itself first. Near each minimum, the linear model of errors and slopes is solved. No draw
    is replayed, so the intervals ignore curvature and the grid. Every interval includes a minimum that equals the fit.
    """
    # These are statistics, not secrets; random.Random gives the same draws on every Python version.
    draws = random.Random(seed)  # noqa: S311
    models = [(point, problem.errors(point), problem.slopes(point), problem.room(point)) for point in minima]
    first = models[0][1]
    reached: list[list[float]] = [[] for _ in problem.parameters]
    means = []
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
        for values, value in zip(reached, ends[best][1], strict=True):
            values.append(value)
    cost = problem.cost(minima[0])
    equal = [point for point in minima if problem.cost(point) <= cost + TIE]
    intervals = []
    for j, parameter in enumerate(problem.parameters):
        found = _interval(reached[j])
        low, high = min(found.low, *(point[j] for point in equal)), max(found.high, *(point[j] for point in equal))
        values = [float(parameter.lower) + float(parameter.step) * end for end in (low, high)]
        intervals.append(Interval(*values))
    return Bootstrap(seed, tuple(intervals), _interval(means))
