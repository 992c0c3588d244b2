"""Bootstrap: how far the fitted values and the mean error depend on which measurements there happen to be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from npu_model.values import dataclass
from validation.calibrate.fit import Notches, Problem
from validation.calibrate.solver import bounded_step
from validation.fvp.scores import mean_error

RESAMPLES = 1000
COVERAGE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval of :data:`COVERAGE`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Intervals of every fitted parameter, in their order, and of the mean absolute error; ``seed`` repeats them."""

    seed: int
    parameters: tuple[Interval, ...]
    mean_error: Interval


def _interval(values: Sequence[float]) -> Interval:
    ordered = sorted(values)
    tail = round(len(ordered) * (1 - COVERAGE) / 2)
    return Interval(ordered[tail], ordered[-1 - tail])


def bootstrap(problem: Problem, notches: Notches, seed: int) -> Bootstrap:
    """Draw measurements with replacement :data:`RESAMPLES` times and solve each draw on the linear model at ``notches``.

    The linear model is the fit's own: errors at ``notches`` and their slopes. No draw is replayed, so that curvature and
    the grid are left out of the intervals.
    """
    # Statistics, no secrets; random.Random gives the same draws on every Python version.
    draws = random.Random(seed)  # noqa: S311
    errors, slopes, room = problem.errors(notches), problem.slopes(notches), problem.room(notches)
    steps, means = [], []
    for _ in range(RESAMPLES):
        drawn = draws.choices(range(len(errors)), k=len(errors))
        steps.append(bounded_step([slopes[i] for i in drawn], [errors[i] for i in drawn], *room))
        means.append(mean_error(errors[i] for i in drawn))
    intervals = []
    for j, parameter in enumerate(problem.parameters):
        reached = _interval([notches[j] + step[j] for step in steps])
        values = [float(parameter.lower) + float(parameter.step) * end for end in (reached.low, reached.high)]
        intervals.append(Interval(*values))
    return Bootstrap(seed, tuple(intervals), _interval(means))
