"""The FVP scorecard: its replays, and its bars as data with their evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from validation.fvp.scores import (
    OperatorScore,
    PointScore,
    ScoreBar,
    ScoreSummary,
    SweepScore,
    WholeRunScore,
    mean_error,
    summarise,
    worst_error,
)

LIMITS = MEAN_LIMIT, WORST_LIMIT = 0.007, 0.015
"""Mean and worst absolute error of NPU ACTIVE, with the adapters on and off."""

SWEEP_LIMITS = 0.05, 0.10
"""Mean and worst absolute error of NPU TOTAL over the sweeps of the adapters' settings."""

BEAT_LIMITS = {"AXI0_RD": 0.01, "AXI0_WR": 0.002, "AXI1_RD": 0.002}
"""Largest absolute error of a port's data beats, on every network."""

ANY_BEATS_LIMIT = min(BEAT_LIMITS.values())
"""Largest absolute error of the beats of any port, on other NPUs and for older streams."""

WHOLE_RUN_LIMIT = 0.02
"""Absolute error of NPU ACTIVE of any run of small kernels, the cascade among them."""

U65_LIMITS = 0.02, 0.05
"""Mean and worst absolute error of NPU ACTIVE on the Ethos-U65, with the adapters on and off."""

U85_LIMITS = 0.03, 0.08
"""Mean and worst absolute error of NPU ACTIVE on the Ethos-U85, adapters on."""

OLD_LIMIT = 0.02
"""Absolute error of NPU ACTIVE of any stream of an older Vela."""

OPERATOR_LIMIT = 0.03
"""Absolute error of any single operator."""

OLD_MISSED = "one network of them takes longer on that FVP than on the later one, and no rule that both bear says why"
"""The reason why the bar of the older streams is missed. The decision record on the timing model lists the attempts."""

OPERATORS_MISSED = "the 4x9 operator's cycles are fewer than its MACs alone can take"
"""The reason why the bar of the single operators is missed. The table of the single operators has the figures."""


class Scorecard(Struct, frozen=True):
    """Every replay with its measurement, and the bars."""

    points: tuple[PointScore, ...]
    sweeps: tuple[SweepScore, ...]
    operators: tuple[OperatorScore, ...]
    whole_runs: tuple[WholeRunScore, ...] = ()
    """The class "small kernels, cascade"."""
    u65: tuple[PointScore, ...] = ()
    """The classes "Ethos-U65", adapters on and off."""
    u85: tuple[PointScore, ...] = ()
    """The class "Ethos-U85", adapters on."""
    old: tuple[PointScore, ...] = ()
    """The class "streams of older Velas"."""

    @property
    def summaries(self) -> tuple[ScoreSummary, ScoreSummary]:
        """Adapters on, adapters off."""
        return summarise(self.points, adapters=True), summarise(self.points, adapters=False)

    @property
    def bars(self) -> tuple[ScoreBar, ...]:
        """The limits of the errors."""
        adapters = {"on": True, "off": False}
        return (
            *(bar for name, on in adapters.items() for bar in _both(f"NPU ACTIVE, adapters {name}", LIMITS, _of(self.points, on))),
            _worst("NPU ACTIVE, small kernels and cascade", WHOLE_RUN_LIMIT, _errors(self.whole_runs)),
            *_both("NPU TOTAL over the sweeps", SWEEP_LIMITS, _errors(self.sweeps)),
            *(_worst(f"{port} beats", limit, _beats(self.points, port)) for port, limit in BEAT_LIMITS.items()),
            *(bar for name, on in adapters.items() for bar in _both(f"{_U65}, adapters {name}", U65_LIMITS, _of(self.u65, on))),
            _worst("any beats, Ethos-U65", ANY_BEATS_LIMIT, _beats(self.u65)),
            *_both("NPU ACTIVE, Ethos-U85", U85_LIMITS, _errors(self.u85)),
            _worst("any beats, Ethos-U85", ANY_BEATS_LIMIT, _beats(self.u85)),
            _worst("NPU ACTIVE, older Velas", OLD_LIMIT, _errors(self.old), OLD_MISSED),
            _worst("any beats, older Velas", ANY_BEATS_LIMIT, _beats(self.old)),
            _worst("a single operator", OPERATOR_LIMIT, _errors(self.operators), OPERATORS_MISSED),
        )

    @property
    def passed(self) -> bool:
        """Whether every bar is kept, except the bars that are known to be missed."""
        return not any(bar.fails for bar in self.bars)


_U65 = "NPU ACTIVE, Ethos-U65"


def _errors(scores: Sequence[PointScore | SweepScore | OperatorScore | WholeRunScore]) -> list[float]:
    return [score.error for score in scores]


def _of(scores: Sequence[PointScore], adapters: bool) -> list[float]:  # noqa: FBT001  # the one argument is the thing that is named
    return [score.error for score in scores if score.point.adapters == adapters]


def _beats(scores: Sequence[PointScore], port: str | None = None) -> list[float]:
    """The errors of the beats of one port, or of every port."""
    return [beats.error for score in scores for beats in score.beats if port in (None, beats.port)]


def _worst(what: str, limit: float, errors: Sequence[float], known: str = "") -> ScoreBar:
    return ScoreBar(f"worst error of {what}", limit, abs(worst_error(errors)), len(errors), known)


def _both(what: str, limits: tuple[float, float], errors: Sequence[float]) -> tuple[ScoreBar, ScoreBar]:
    """The bars of the mean and of the worst error."""
    mean, worst = limits
    return ScoreBar(f"mean error of {what}", mean, mean_error(errors), len(errors)), _worst(what, worst, errors)
