"""Evaluation: the replay's cycles for measurements under any timing parameters, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npu_model.timing import TimingParameters
from sim import replay
from validation.calibrate.measurements import Measurement
from validation.scores import mean_error, relative, worst_error

Progress = Callable[[int], None]
"""Told how many replays have been done."""


def silent(_replays: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of NPU ACTIVE over ``count`` measurements: mean absolute and worst signed."""

    count: int
    mean: float
    worst: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Errors:
        """The figures of a list of signed errors."""
        return cls(len(errors), mean_error(errors), worst_error(errors))


class Evaluator:
    """Replays measurements and remembers every result: folds and line searches ask for the same ones again."""

    def __init__(self, progress: Progress = silent) -> None:
        self._cycles: dict[tuple[Measurement, TimingParameters], int] = {}
        self._progress = progress

    def cycles(self, measurement: Measurement, timing: TimingParameters) -> int:
        """NPU ACTIVE of a replay."""
        key = measurement, timing
        if key not in self._cycles:
            self._cycles[key] = sum(replay(program, measurement.system, timing=timing).cycles for program in measurement.programs)
            self._progress(len(self._cycles))
        return self._cycles[key]

    def error(self, measurement: Measurement, timing: TimingParameters) -> float:
        """Relative error of the replay."""
        return relative(self.cycles(measurement, timing), measurement.active)

    def errors(self, measurements: Sequence[Measurement], timing: TimingParameters) -> list[float]:
        """Relative errors, in order."""
        return [self.error(measurement, timing) for measurement in measurements]
