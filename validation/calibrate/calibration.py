"""The two commands: fit timing parameters to measurements, and check a fitted profile against measurements.

Cross-validation gives the error on a network, or an accelerator, that the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.calibrate.bootstrap import bootstrap
from validation.calibrate.evaluation import Errors, Evaluator, Progress, silent
from validation.calibrate.fit import Problem, fit
from validation.calibrate.measurements import Measurement
from validation.calibrate.parameters import DEFAULT_FITTED, Parameter, fitted_parameters
from validation.calibrate.profile import CalibrationProfile, CloseSet, ErrorFigures, FittedPoint, FittedValue, FoldErrors
from validation.fvp.scores import BeatScore, mean_error, relative

Group = Callable[[Measurement], str]


class Fold(Struct, frozen=True):
    """One group of measurements left out: its name, the values fitted to the others, and the errors on the group."""

    left_out: str
    values: tuple[tuple[str, str], ...]
    errors: tuple[float, ...]


def by_network(measurement: Measurement) -> str:
    """Group of a measurement: its network."""
    return measurement.network


def by_accelerator(measurement: Measurement) -> str:
    """Group of a measurement: its MAC configuration."""
    return measurement.accelerator


def leave_out(
    measurements: Sequence[Measurement],
    parameters: Sequence[Parameter],
    evaluator: Evaluator,
    group: Group,
    start: TimingParameters,
) -> tuple[Fold, ...]:
    """Leave out one group at a time, fit the others from ``start``, and score the left-out group.

    A single group has no fold, nor has a group without which too few measurements remain. ``start`` must not come from a fit to all
    measurements, because that fit has seen the left-out group.
    """
    names = list(dict.fromkeys(map(group, measurements)))
    folds = []
    for name in names if len(names) > 1 else ():
        held_out = [measurement for measurement in measurements if group(measurement) == name]
        seen = [measurement for measurement in measurements if group(measurement) != name]
        if len(seen) <= len(parameters):
            continue
        timing = fit(seen, parameters, evaluator, start).timing
        values = tuple((parameter.name, str(getattr(timing, parameter.name))) for parameter in parameters)
        folds.append(Fold(name, values, tuple(evaluator.errors(held_out, timing))))
    return tuple(folds)


DEFAULT_SEED = 1
GROUPS = (("network", by_network), ("accelerator", by_accelerator))
"""Groups that are left out one at a time."""

GENERALISES = 1.5
"""Bar: the leave-one-network-out error is at most this multiple of the in-sample error."""

DIGITS = 6
"""Decimal places of a profile's figures. Intervals are rounded outwards."""

ALMOST = 1e-6
"""A fraction of the last digit that floating point may add."""

GOOD_ENOUGH = 0.005
"""An error on left-out networks that passes even if the error in sample is tiny: half of the model's error on the FVP's points."""


def calibrate_fit(  # noqa: PLR0913  # the options of calibrate fit
    measurements: Sequence[Measurement],
    *,
    name: str,
    date: str,
    tools: tuple[tuple[str, str], ...],
    parameters: Sequence[str] = DEFAULT_FITTED,
    seed: int = DEFAULT_SEED,
    progress: Progress = silent,
) -> CalibrationProfile:
    """Fit up to three timing ``parameters`` to the ``measurements`` declared for calibration, and compute all error figures.

    ``date`` and ``tools`` (names and versions) go into the profile unchanged. InputError if there are too few measurements, a parameter is
    unknown, or SciPy is not installed.
    """
    chosen, evaluator = fitted_parameters(parameters), Evaluator(progress)
    seen = [measurement for measurement in measurements if measurement.calibrates]
    found = fit(seen, chosen, evaluator)
    problem = Problem(seen, chosen, evaluator, DEFAULT_TIMING)
    drawn = bootstrap(problem, found.minima, seed)
    default = Errors.of(evaluator.errors(seen, DEFAULT_TIMING))
    folds = [
        FoldErrors(kind, fold.left_out, *_figures(fold.errors))
        for kind, group in GROUPS
        for fold in leave_out(seen, chosen, evaluator, group, DEFAULT_TIMING)
    ]
    return CalibrationProfile(
        name=name,
        date=date,
        seed=seed,
        tools=tools,
        timing=found.timing,
        errors=ErrorFigures(
            *map(
                _rounded, (default.mean, default.worst, found.errors.mean, found.errors.worst, drawn.mean_error.low, drawn.mean_error.high)
            )
        ),
        fitted=tuple(
            FittedValue(
                name=parameter.name,
                value=str(getattr(found.timing, parameter.name)),
                default=str(getattr(DEFAULT_TIMING, parameter.name)),
                lower=str(parameter.lower),
                upper=str(parameter.upper),
                interval_low=floor(interval.low * 10**DIGITS + ALMOST) / 10**DIGITS,
                interval_high=ceil(interval.high * 10**DIGITS - ALMOST) / 10**DIGITS,
            )
            for parameter, interval in zip(chosen, drawn.parameters, strict=True)
        ),
        undecided=found.undecided,
        sets=tuple(
            CloseSet(
                tuple(str(p.value(n)) for p, n in zip(chosen, notches, strict=True)), _rounded(mean_error(problem.errors(notches))), draws
            )
            for notches, draws in drawn.within_noise
        ),
        folds=tuple(folds),
        points=tuple(FittedPoint(m.name, m.sha256, m.active, evaluator.cycles(m, found.timing), m.source) for m in seen),
    )


def _rounded(value: float) -> float:
    """A figure for a profile, without the digits in which mathematics libraries differ."""
    return round(value, DIGITS)


def _figures(errors: Sequence[float]) -> tuple[int, float, float]:
    figures = Errors.of(errors)
    return figures.count, _rounded(figures.mean), _rounded(figures.worst)


class CheckedPoint(Struct, frozen=True):
    """One measurement under a profile.

    ``recorded`` are its cycles in the profile, None if the fit has not seen it. ``beats`` has the counters that were measured with NPU
    ACTIVE. They show whether the right file and memory map were measured, before timing is judged.
    """

    name: str
    npu_active: int
    recorded: int | None
    cycles: int
    default_cycles: int
    beats: tuple[BeatScore, ...] = ()

    @property
    def error(self) -> float:
        """Relative error with the profile."""
        return relative(self.cycles, self.npu_active)

    @property
    def default_error(self) -> float:
        """Relative error with the default timing parameters."""
        return relative(self.default_cycles, self.npu_active)


class CalibrationCheck(Struct, frozen=True):
    """A profile replayed: its points, and whether it still holds."""

    profile: CalibrationProfile
    points: tuple[CheckedPoint, ...]

    @property
    def seen(self) -> Errors:
        """Errors of the measurements that the fit saw."""
        return Errors.of([point.error for point in self.points if point.recorded is not None])

    @property
    def unseen(self) -> Errors:
        """Errors of the other measurements, which say most about the model."""
        return Errors.of([point.error for point in self.points if point.recorded is None])

    @property
    def drifted(self) -> tuple[CheckedPoint, ...]:
        """Points whose cycles differ from those in the profile, because the model has changed since."""
        return tuple(point for point in self.points if point.recorded is not None and point.recorded != point.cycles)

    @property
    def generalises(self) -> bool:
        """Whether leaving a network out raises the error by at most :attr:`most`; True if none can be left out."""
        return self.profile.held_out("network").mean <= self.most

    @property
    def most(self) -> float:
        """The bar: :data:`GENERALISES` times the error in sample, but no less than :data:`GOOD_ENOUGH`."""
        return max(GOOD_ENOUGH, GENERALISES * self.profile.errors.mean)

    @property
    def passed(self) -> bool:
        """Whether the profile is reproduced to the cycle and generalises."""
        return not self.drifted and self.generalises


def calibrate_check(profile: CalibrationProfile, measurements: Sequence[Measurement], progress: Progress = silent) -> CalibrationCheck:
    """Replay ``measurements`` with the profile's parameters and with the default ones.

    The fit has seen a measurement if a point of the profile has the same name, compiled file and counter. InputError if there is no
    measurement.
    """
    if not measurements:
        raise InputError("There are 0 measurements to check: give 1 or more.")
    recorded = {(point.name, point.sha256, point.npu_active): point.cycles for point in profile.points}
    evaluator = Evaluator(progress)
    return CalibrationCheck(
        profile,
        tuple(
            CheckedPoint(
                name=m.name,
                npu_active=m.active,
                recorded=recorded.get((m.name, m.sha256, m.active)),
                cycles=evaluator.cycles(m, profile.timing),
                default_cycles=evaluator.cycles(m, DEFAULT_TIMING),
                beats=tuple(BeatScore(name, evaluator.beats(m, profile.timing)[name], count) for name, count in m.beats),
            )
            for m in measurements
        ),
    )
