"""The fit: Gauss-Newton on the grid of parameter values, with slopes from replays one notch away.

Cycles are a staircase of the parameters, so nothing is differentiated: each step solves the bounded linear problem of
:mod:`validation.calibrate.solver` with the differences between neighbouring notches, rounds to a notch and replays.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass
from validation.calibrate.evaluation import Errors, Evaluator
from validation.calibrate.measurements import Measurement
from validation.calibrate.parameters import Parameter, timing_at
from validation.calibrate.solver import bounded_step, require_solver

MAX_STEPS = 12
"""Gauss-Newton steps of a fit; the reference points need 2 to 4."""

HALVINGS = 3
"""Times that a step which makes things worse is halved before the fit ends."""

Notches = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """The parameters that a fit found, and the errors over what it was fitted to."""

    timing: TimingParameters
    notches: Notches
    errors: Errors


class Problem:
    """Measurements, parameters to move and the values of all others (``base``): the sum of squared relative errors to make small."""

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


def _improved(problem: Problem, notches: Notches) -> Notches | None:
    """A better point in the direction of the linear problem's solution, or None."""
    cost = problem.cost(notches)
    step = bounded_step(problem.slopes(notches), problem.errors(notches), *problem.room(notches))
    for halving in range(HALVINGS + 1):
        there = tuple(notch + round(change / 2**halving) for notch, change in zip(notches, step, strict=True))
        if there == notches:
            return None
        if problem.cost(there) < cost:
            return there
    return None


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
    notches: Notches = tuple(parameter.notch(start) for parameter in parameters)
    for _ in range(MAX_STEPS):
        better = _improved(problem, notches)
        if better is None:
            break
        notches = better
    return Fit(problem.timing(notches), notches, Errors.of(problem.errors(notches)))
