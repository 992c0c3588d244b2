"""The fit: Gauss-Newton on the grid of parameter values, with slopes from replays one notch away, from many starts.

Cycles are a staircase of the parameters, so nothing is differentiated: each step solves the bounded linear problem of
:mod:`validation.calibrate.solver` with the differences between neighbouring notches and replays the notches around its solution. Staircases
have many minima. So each parameter is then held at values across its bounds and next to the minimum, while the others follow. Parameters
that such a point leaves nearly undecided span a coarse grid of further starts. If one of the starts ends lower, the search continues there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, floor, sqrt
from operator import itemgetter

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.calibrate.evaluation import Errors, Evaluator
from validation.calibrate.measurements import Measurement
from validation.calibrate.parameters import Parameter, timing_at
from validation.calibrate.solver import bounded_step, require_solver

MAX_STEPS = 12
"""Gauss-Newton steps of a fit; the reference points need 2 to 4."""

HALVINGS = 3
"""Number of halvings of a step that makes the fit worse, before its neighbours are tried."""

HELD_VALUES = 7
"""Number of values across its bounds at which each parameter is held while the others follow."""

BESIDE = (-2, -1, 1, 2)
"""Notches next to a minimum at which each parameter is held too: the others may have to move by more than one notch each."""

HELD_STEPS = 3
"""Gauss-Newton steps of the others while one parameter is held."""

NEAR = 0.001
"""Root mean square error by which a point with another value may be worse before the parameter counts as decided."""

GRID_POINTS = 256
"""Largest number of points of the grid over the parameters that are nearly undecided."""

CONTINUED = 3
"""Points from which each round of the search continues, best first."""

KEPT_MINIMA = 6
"""Minima that a fit remembers, best first."""

TIE = 1e-12
"""Sums of squared relative errors that differ by less are equal: one cycle of a million is 1e-12."""

Notches = tuple[int, ...]


class Fit(Struct, frozen=True):
    """The parameters of a fit, and its errors over its measurements.

    ``minima`` are the points without a better neighbour, best first, including the fit itself. ``undecided`` names the parameters that have
    another value at an equally good point.
    """

    timing: TimingParameters
    notches: Notches
    errors: Errors
    minima: tuple[Notches, ...] = ()
    undecided: tuple[str, ...] = ()


class Problem:
    """Measurements, parameters to move, and the values of all others (``base``). The goal is the least sum of squared relative errors."""

    def __init__(
        self, measurements: Sequence[Measurement], parameters: Sequence[Parameter], evaluator: Evaluator, base: TimingParameters
    ) -> None:
        self.measurements = measurements
        self.parameters = parameters
        self._evaluator = evaluator
        self._base = base

    def timing(self, notches: Notches) -> TimingParameters:
        """The timing parameters at a point of the grid."""
        return timing_at(self.parameters, notches, self._base)

    def errors(self, notches: Notches) -> list[float]:
        """Relative errors of the measurements."""
        return self._evaluator.errors(self.measurements, self.timing(notches))

    def cost(self, notches: Notches) -> float:
        """Sum of the squared relative errors."""
        return sum(error * error for error in self.errors(notches))

    def slopes(self, notches: Notches) -> list[list[float]]:
        """Change of every error for one notch of every parameter: upwards, at the upper bound downwards."""
        here = self.errors(notches)
        columns = []
        for j, parameter in enumerate(self.parameters):
            sign = 1 if notches[j] < parameter.notches else -1
            beside = (*notches[:j], notches[j] + sign, *notches[j + 1 :])
            columns.append([sign * (there - error) for there, error in zip(self.errors(beside), here, strict=True)])
        return [list(row) for row in zip(*columns, strict=True)]

    def room(self, notches: Notches) -> tuple[list[float], list[float]]:
        """Notches down to the lower and up to the upper bounds."""
        upper = [float(parameter.notches - notch) for parameter, notch in zip(self.parameters, notches, strict=True)]
        return [-float(notch) for notch in notches], upper


def _around(problem: Problem, notches: Notches, step: Sequence[float]) -> list[Notches]:
    """The points of the grid around the end of a step, nearest first."""
    ends = [notch + change for notch, change in zip(notches, step, strict=True)]
    corners = product(*((floor(end), ceil(end)) for end in ends))
    inside = {tuple(max(0, min(p.notches, c)) for p, c in zip(problem.parameters, corner, strict=True)) for corner in corners}
    return sorted(inside, key=lambda point: (sum((a - b) ** 2 for a, b in zip(point, ends, strict=True)), point))


def _neighbours(problem: Problem, notches: Notches, held: int | None) -> list[Notches]:
    """The points of the grid one notch away in any parameter except the held one."""
    sides = [
        sorted({max(0, notch - 1), notch, min(parameter.notches, notch + 1)}) if number != held else [notch]
        for number, (notch, parameter) in enumerate(zip(notches, problem.parameters, strict=True))
    ]
    return [point for point in product(*sides) if point != notches]


def _improved(problem: Problem, notches: Notches, held: int | None = None) -> Notches | None:
    """A better point in the direction of the linear problem's solution, or near it; None if neither is better."""
    cost = problem.cost(notches)
    lower, upper = problem.room(notches)
    if held is not None:
        lower[held] = upper[held] = 0.0
    step = bounded_step(problem.slopes(notches), problem.errors(notches), lower, upper)
    tried = [_around(problem, notches, step)]
    for halving in range(1, HALVINGS + 1):
        halved = [change / 2**halving for change in step]
        tried += [[tuple(notch + round(change) for notch, change in zip(notches, halved, strict=True))]]
    for points in tried:
        best = min(points, key=problem.cost)
        if problem.cost(best) < cost:
            return best
    beside = _neighbours(problem, notches, held)
    best = min(beside, key=problem.cost, default=notches)
    return best if problem.cost(best) < cost else None


def _descended(problem: Problem, notches: Notches, held: int | None = None) -> Notches:
    """The end of the steps from a point, with all parameters moving except the held one."""
    for _ in range(MAX_STEPS if held is None else HELD_STEPS):
        better = _improved(problem, notches, held)
        if better is None:
            break
        notches = better
    return notches


def _spread(parameter: Parameter, count: int) -> list[int]:
    """Up to ``count`` notches across the bounds of a parameter, both bounds among them."""
    return sorted({round(parameter.notches * i / (count - 1)) for i in range(count)})


def _grid(problem: Problem, best: Notches, points: Sequence[Notches]) -> list[Notches]:
    """A coarse grid through ``best`` over the parameters for which one of ``points`` has another value and is nearly as good."""
    most = (sqrt(problem.cost(best)) + NEAR * sqrt(len(problem.measurements))) ** 2
    near = [point for point in points if problem.cost(point) <= most]
    moving = [j for j, notch in enumerate(best) if any(point[j] != notch for point in near)]
    count = next((n for n in range(max(p.notches for p in problem.parameters) + 1, 1, -1) if n ** len(moving) <= GRID_POINTS), 2)
    axes = [_spread(p, count) if j in moving else [best[j]] for j, p in enumerate(problem.parameters)]
    return list(product(*axes)) if moving else []


def _held(problem: Problem, notches: Notches) -> Iterator[Notches]:
    """Points where each parameter in turn is held at values all over its bounds and the others have followed."""
    for number, parameter in enumerate(problem.parameters):
        beside = {notches[number] + change for change in BESIDE} & set(range(parameter.notches + 1))
        for value in sorted({*_spread(parameter, HELD_VALUES), *beside} - {notches[number]}):
            yield _descended(problem, (*notches[:number], value, *notches[number + 1 :]), number)


def _searched(problem: Problem, start: Notches) -> tuple[list[Notches], list[Notches]]:
    """All minima from ``start`` on, best first, and the points of the last round of held parameters."""
    best, minima = _descended(problem, start), set[Notches]()
    while True:
        minima.add(best)
        points = list(_held(problem, best))
        points += _grid(problem, best, points)
        ends = {_descended(problem, point) for point in sorted(points, key=lambda point: (problem.cost(point), point))[:CONTINUED]}
        minima |= ends
        better = min(ends, key=lambda point: (problem.cost(point), point))
        if problem.cost(better) >= problem.cost(best) - TIE:
            return sorted(minima, key=lambda point: (problem.cost(point), point != best, point)), points
        best = better


def _equals(problem: Problem, notches: Notches) -> Iterator[Notches]:
    """The equally good points next to a point, along each parameter and as far as they go."""
    cost = problem.cost(notches)
    for number, parameter in enumerate(problem.parameters):
        for sign in (-1, 1):
            value = notches[number] + sign
            while 0 <= value <= parameter.notches:
                beside = (*notches[:number], value, *notches[number + 1 :])
                if problem.cost(beside) > cost + TIE:
                    break
                yield beside
                value += sign


def _ends(points: Sequence[Notches]) -> list[Notches]:
    """Among equal points, the points with the least and the most of each parameter, which show the parameter's range."""
    found = []
    for axis in range(len(points[0]) if points else 0):
        ordered = sorted(points, key=itemgetter(axis))
        found += [ordered[0], ordered[-1]]
    return found


def fit(
    measurements: Sequence[Measurement],
    parameters: Sequence[Parameter],
    evaluator: Evaluator,
    start: TimingParameters = DEFAULT_TIMING,
) -> Fit:
    """Fit ``parameters`` to ``measurements``, beginning at ``start``, which also gives every other parameter's value.

    InputError if there are fewer measurements than parameters + 1, one of them may not be used (``use`` is test), or
    SciPy is not installed.
    """
    require_solver()
    if len(measurements) <= len(parameters):
        found = "1 measurement is" if len(measurements) == 1 else f"{len(measurements)} measurements are"
        sought = "1 parameter" if len(parameters) == 1 else f"{len(parameters)} parameters"
        raise InputError(
            f"{found} too few to fit {sought}: give {len(parameters) + 1} or more that are not declared a test, or fit fewer parameters."
        )
    for measurement in measurements:
        if not measurement.calibrates:
            raise InputError(f"Measurement {measurement.name!r} is declared a test: leave it out of the fit.")
    problem = Problem(measurements, parameters, evaluator, start)
    minima, others = _searched(problem, tuple(parameter.notch(start) for parameter in parameters))
    notches = minima[0]
    equal = [point for point in (*minima, *others) if problem.cost(point) <= problem.cost(notches) + TIE]
    equal += _equals(problem, notches)
    undecided = tuple(p.name for j, p in enumerate(parameters) if any(point[j] != notches[j] for point in equal))
    kept = tuple(dict.fromkeys((*minima[:KEPT_MINIMA], *_ends(equal))))
    return Fit(problem.timing(notches), notches, Errors.of(problem.errors(notches)), kept, undecided)
