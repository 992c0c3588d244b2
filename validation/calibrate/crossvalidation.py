"""Cross-validation: the error on a network, or an accelerator, that the fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from npu_model.timing import TimingParameters
from validation.calibrate.evaluation import Evaluator
from validation.calibrate.fit import fit
from validation.calibrate.measurements import Measurement
from validation.calibrate.parameters import Parameter

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
