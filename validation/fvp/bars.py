"""The bars of the FVP scorecard as data, and their evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from validation.fvp.scores import OperatorScore, PointScore, ScoreBar, SweepScore, WholeRunScore, mean_error, summarise, worst_error

MEAN_LIMIT = 0.007
"""Mean absolute error of NPU ACTIVE, with the adapters on and off."""

WORST_LIMIT = 0.015
"""Absolute error of NPU ACTIVE of any point."""

SWEEP_MEAN_LIMIT, SWEEP_WORST_LIMIT = 0.05, 0.10
"""Mean and worst absolute error of NPU TOTAL over the sweeps of the adapters' settings."""

BEAT_LIMITS = {"AXI0_RD": 0.01, "AXI0_WR": 0.002, "AXI1_RD": 0.002}
"""Largest absolute error of a port's data beats, on every network."""

WHOLE_RUN_LIMIT = 0.02
"""Absolute error of NPU ACTIVE of any run of small kernels, the cascade among them."""

U65_MEAN_LIMIT, U65_WORST_LIMIT = 0.02, 0.05
"""Mean and worst absolute error of NPU ACTIVE on the Ethos-U65, with the adapters on and off."""

U85_MEAN_LIMIT, U85_WORST_LIMIT = 0.03, 0.08
"""Mean and worst absolute error of NPU ACTIVE on the Ethos-U85, adapters on."""

OLD_LIMIT = 0.02
"""Absolute error of NPU ACTIVE of any stream of an older Vela."""

OPERATOR_LIMIT = 0.03
"""Absolute error of any single operator."""

OLD_MISSED = "one network of them takes longer on that FVP than on the later one, and no rule that both bear says why"
"""The reason why the bar of the older streams is missed. The decision record on the timing model lists the attempts."""

OPERATORS_MISSED = "the 4x9 operator's cycles are fewer than its MACs alone can take"
"""The reason why the bar of the single operators is missed. The table of the single operators has the figures."""


def _cycle_bars(scores: Sequence[PointScore], *, adapters: bool) -> tuple[ScoreBar, ScoreBar]:
    summary = summarise(scores, adapters=adapters)
    where = f"NPU ACTIVE, adapters {'on' if adapters else 'off'}"
    return (
        ScoreBar(f"mean error of {where}", MEAN_LIMIT, summary.mean, summary.count),
        ScoreBar(f"worst error of {where}", WORST_LIMIT, abs(summary.worst), summary.count),
    )


def _sweep_bars(scores: Sequence[SweepScore]) -> tuple[ScoreBar, ScoreBar]:
    errors = [score.error for score in scores]
    return (
        ScoreBar("mean error of NPU TOTAL over the sweeps", SWEEP_MEAN_LIMIT, mean_error(errors), len(errors)),
        ScoreBar("worst error of NPU TOTAL over the sweeps", SWEEP_WORST_LIMIT, abs(worst_error(errors)), len(errors)),
    )


def _beat_bar(port: str, scores: Sequence[PointScore]) -> ScoreBar:
    errors = [beats.error for score in scores for beats in score.beats if beats.port == port]
    return ScoreBar(f"worst error of {port} beats", BEAT_LIMITS[port], abs(worst_error(errors)), len(errors))


def _whole_run_bar(scores: Sequence[WholeRunScore]) -> ScoreBar:
    errors = [score.error for score in scores]
    return ScoreBar("worst error of NPU ACTIVE, small kernels and cascade", WHOLE_RUN_LIMIT, abs(worst_error(errors)), len(errors))


def _u65_bars(scores: Sequence[PointScore]) -> tuple[ScoreBar, ...]:
    bars = []
    for adapters in (True, False):
        errors = [score.error for score in scores if score.point.adapters == adapters]
        where = f"NPU ACTIVE, Ethos-U65, adapters {'on' if adapters else 'off'}"
        bars += [
            ScoreBar(f"mean error of {where}", U65_MEAN_LIMIT, mean_error(errors), len(errors)),
            ScoreBar(f"worst error of {where}", U65_WORST_LIMIT, abs(worst_error(errors)), len(errors)),
        ]
    return *bars, _any_beats("Ethos-U65", scores)


def _u85_bars(scores: Sequence[PointScore]) -> tuple[ScoreBar, ...]:
    errors, where = [score.error for score in scores], "NPU ACTIVE, Ethos-U85"
    return (
        ScoreBar(f"mean error of {where}", U85_MEAN_LIMIT, mean_error(errors), len(errors)),
        ScoreBar(f"worst error of {where}", U85_WORST_LIMIT, abs(worst_error(errors)), len(errors)),
        _any_beats("Ethos-U85", scores),
    )


def _any_beats(where: str, scores: Sequence[PointScore]) -> ScoreBar:
    beats = [beats.error for score in scores for beats in score.beats]
    return ScoreBar(f"worst error of any beats, {where}", min(BEAT_LIMITS.values()), abs(worst_error(beats)), len(beats))


def _old_bars(scores: Sequence[PointScore]) -> tuple[ScoreBar, ScoreBar]:
    errors = [score.error for score in scores]
    bar = ScoreBar("worst error of NPU ACTIVE, older Velas", OLD_LIMIT, abs(worst_error(errors)), len(errors), OLD_MISSED)
    return bar, _any_beats("older Velas", scores)


def _operator_bar(scores: Sequence[OperatorScore]) -> ScoreBar:
    errors = [score.error for score in scores]
    return ScoreBar("worst error of a single operator", OPERATOR_LIMIT, abs(worst_error(errors)), len(errors), OPERATORS_MISSED)


def verdicts(  # noqa: PLR0913  # the classes of the scorecard
    points: Sequence[PointScore],
    sweeps: Sequence[SweepScore],
    operators: Sequence[OperatorScore],
    runs: Sequence[WholeRunScore],
    u65: Sequence[PointScore],
    u85: Sequence[PointScore],
    old: Sequence[PointScore],
) -> tuple[ScoreBar, ...]:
    """Every bar with its figure. A bar without a case is missed."""
    return (
        *_cycle_bars(points, adapters=True),
        *_cycle_bars(points, adapters=False),
        _whole_run_bar(runs),
        *_sweep_bars(sweeps),
        *(_beat_bar(port, points) for port in BEAT_LIMITS),
        *_u65_bars(u65),
        *_u85_bars(u85),
        *_old_bars(old),
        _operator_bar(operators),
    )
