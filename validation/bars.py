"""The bars that the FVP scorecard must clear, as data, and their evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from validation.scores import Bar, PointScore, summarise

MEAN_LIMIT = 0.025
"""Mean absolute error of NPU ACTIVE, with the adapters on and off each."""

WORST_LIMIT = 0.06
"""Absolute error of NPU ACTIVE of any point."""

STREAMING = ("kws_micronet_m", "yolo_fastest_192_face")
"""Networks with enough traffic that part-beats at the edges do not count."""


@dataclass(frozen=True, slots=True)
class BeatLimit:
    """The largest absolute error of a port's beats; ``streaming`` says for which networks, None for all."""

    port: str
    streaming: bool | None
    limit: float


BEAT_LIMITS = (
    BeatLimit("AXI0_WR", streaming=True, limit=0.005),
    BeatLimit("AXI0_WR", streaming=False, limit=0.02),
    BeatLimit("AXI1_RD", streaming=True, limit=0.005),
    BeatLimit("AXI1_RD", streaming=False, limit=0.02),
    BeatLimit("AXI0_RD", streaming=None, limit=0.03),
)


def _cycle_bars(scores: Sequence[PointScore], *, adapters: bool) -> tuple[Bar, Bar]:
    summary = summarise(scores, adapters=adapters)
    where = f"NPU ACTIVE, adapters {'on' if adapters else 'off'}"
    return (
        Bar(f"mean error of {where}", MEAN_LIMIT, summary.mean, summary.count),
        Bar(f"worst error of {where}", WORST_LIMIT, abs(summary.worst), summary.count),
    )


def _beat_bar(limit: BeatLimit, scores: Sequence[PointScore]) -> Bar:
    names = {None: "all networks", True: " and ".join(STREAMING), False: "other networks"}[limit.streaming]
    errors = [
        abs(beats.error)
        for score in scores
        for beats in score.beats
        if beats.port == limit.port and limit.streaming in (None, score.point.network in STREAMING)
    ]
    return Bar(f"worst error of {limit.port} beats, {names}", limit.limit, max(errors, default=0.0), len(errors))


def verdicts(scores: Sequence[PointScore]) -> tuple[Bar, ...]:
    """Every bar with its figure over ``scores``; a bar without a point to measure is missed."""
    cycles = _cycle_bars(scores, adapters=True) + _cycle_bars(scores, adapters=False)
    return cycles + tuple(_beat_bar(limit, scores) for limit in BEAT_LIMITS)
