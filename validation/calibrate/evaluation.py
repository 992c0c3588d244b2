"""Evaluation: the replay's cycles for measurements under any timing parameters, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec import Struct

from npu_model.timing import TimingParameters
from sim import Beats, quick_replay
from validation.calibrate.measurements import BEATS, Measurement
from validation.fvp.scores import mean_error, relative, worst_error

Progress = Callable[[int], None]
"""Callback with the number of finished replays."""


def silent(_replays: int) -> None:
    """Progress that is not shown."""


class Errors(Struct, frozen=True, forbid_unknown_fields=True):
    """Relative errors of NPU ACTIVE over ``count`` measurements: mean absolute and worst signed."""

    count: int
    mean: float
    worst: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Errors:
        """The figures of a list of signed errors."""
        return cls(len(errors), mean_error(errors), worst_error(errors))


class Evaluator:
    """Replays measurements and remembers every result, because folds and line searches ask for the same results again."""

    def __init__(self, progress: Progress = silent) -> None:
        self._replays: dict[tuple[Measurement, TimingParameters], tuple[int, Beats]] = {}
        self._progress = progress

    def _replay(self, measurement: Measurement, timing: TimingParameters) -> tuple[int, Beats]:
        key = measurement, timing
        if key not in self._replays:
            pairs = zip_longest(measurement.programs, measurement.work)
            runs = [quick_replay(program, measurement.system, timing, work) for program, work in pairs]
            self._replays[key] = sum(run.cycles for run in runs), sum((run.beats for run in runs), Beats())
            self._progress(len(self._replays))
        return self._replays[key]

    def cycles(self, measurement: Measurement, timing: TimingParameters) -> int:
        """NPU ACTIVE of a replay."""
        return self._replay(measurement, timing)[0]

    def beats(self, measurement: Measurement, timing: TimingParameters) -> dict[str, int]:
        """Data beats of a replay, by the PMU event names of :data:`BEATS`."""
        beats = self._replay(measurement, timing)[1]
        return dict(zip(BEATS, (beats.axi0_read, beats.axi0_write, beats.axi1_read), strict=True))

    def error(self, measurement: Measurement, timing: TimingParameters) -> float:
        """Relative error of the replay."""
        return relative(self.cycles(measurement, timing), measurement.active)

    def errors(self, measurements: Sequence[Measurement], timing: TimingParameters) -> list[float]:
        """Relative errors, in order."""
        return [self.error(measurement, timing) for measurement in measurements]
