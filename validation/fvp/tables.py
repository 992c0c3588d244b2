"""The FVP scorecard as tables for a terminal or a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu_model.errors import InputError
from validation.fvp.bars import Scorecard
from validation.fvp.scores import (
    IDLE,
    SHARES,
    TOTAL_GRID,
    TOTAL_OVERHEAD,
    BeatScore,
    OperatorScore,
    PointScore,
    ScoreBar,
    ScoreSummary,
    SweepScore,
    WholeRunScore,
)
from validation.tables import Table, percent, share

_CLAIM = "Agreement with Arm's simulator (Corstone-300, Corstone-310 and Corstone-320 FVP), not silicon."
_BEATS = "A beat is 8 bytes, or 16 on the U65. The FVP's beats are published only with adapters on. AXI1_RD includes the command fetch."
_DEEP_BEATS = "All ports to the SRAM, and all to the external memory (EXT). A beat is 16 bytes."
_GRID = (
    f"Only NPU TOTAL is published here, on a grid of {TOTAL_GRID} cycles. Our NPU ACTIVE, plus the {TOTAL_OVERHEAD} cycles by which "
    "TOTAL exceeds it, is rounded up to that grid before the comparison. An error below the resolution cannot be seen. Where the "
    "resolution is 0, NPU ACTIVE is published too, and the error is its error."
)
_VELA = (
    "Vela's column is the estimate of Vela 5.0.0 for the measured streams. The estimate counts the memory timing of the adapters, so "
    "with adapters off it only shows what that timing is worth."
)
_WHOLE_RUNS = (
    "The project zwb725/tinycnn-edgi_talk (commit 6275536) published one graph at two sizes. Each stream transposes its input by 64 or "
    f"96 pools of one channel. The time of the whole run is published, and {IDLE} idle cycles are subtracted, as published for one of the "
    "runs. The streams come from our own networks with random weights, and match the published SRAM, flash and beats to two command "
    "words. Size is the only cascade with a public measurement. One network on one configuration says little about others."
)
_U65 = (
    "Published by the same project: Corstone-300 with an Ethos-U65, adapters on (u65_high_end), and Corstone-310 and -315, which agree, "
    "adapters off (u65_off); Vela 5.0.0 with Dedicated_Sram. Some rules hold for the U65 alone and were chosen by looking at these sixteen "
    "points of four networks; some of them are fits of one network (docs/decisions/0003-timing-model.md)."
)
_U85 = (
    "Published by the same project: the Corstone-320 FVP with an Ethos-U85, adapters on, one profile for each number of MACs "
    "(u85_sys_dram_low, _mid, _high); Vela 5.0.0 with Dedicated_Sram. The rules of the beats were found with these seventeen points of "
    "four networks, and so were some rules of time. The last table of this page says what a network may be off by that was not measured."
)
_OLD = (
    "Arm's own documentation (ML embedded evaluation kit): an FVP of 2021 or 2022 without a stated version, adapters on. The streams "
    "were made again with the Vela of that time, and all beats equal the published ones. An operator on the CPU splits YOLO into two "
    "streams. No rule was chosen with these points in view."
)
_SINGLE = (
    "The expected cycles come from the tests of TVM's cascader, which check them to 10 % and do not say how they were found. Assumed "
    "here: adapters off, NHWC, random weights that use all of their bits, part-kernel traversal up to 8 IFM channels."
)


def _least(scores: Sequence[OperatorScore]) -> str:
    """A note on operators that claim fewer cycles than their MACs take."""
    parts = [
        f"{'x'.join(map(str, s.operator.kernel))}: {s.operator.cycles} cycles are expected but the MAC array alone needs {s.mac_cycles}"
        for s in scores
        if s.operator.cycles < s.mac_cycles
    ]
    return f"Fewer cycles than their own MACs take: {'; '.join(parts)}." if parts else ""


def _onoff(adapters: bool) -> str:  # noqa: FBT001  # the one argument is the thing that is named
    return "on" if adapters else "off"


def _bars(bars: Sequence[ScoreBar]) -> Table:
    rows = tuple((b.what, share(b.limit), share(b.value), str(b.count), b.verdict) for b in bars)
    missed = [bar for bar in bars if not bar.passed]
    verdict = f"{len(missed)} of {len(bars)} bars are missed." if missed else "Every bar is kept."
    reasons = tuple(f"Known, {bar.what}: {bar.known}." for bar in missed if bar.known)
    return Table("Verdict", ("figure", "bar", "ours", "cases", "verdict"), rows, (verdict, *reasons, _CLAIM))


def _summaries(summaries: Sequence[ScoreSummary]) -> Table:
    headers = ("adapters", "points", "mean error", "worst", *(f"within {limit:.0%}" for limit in SHARES), "Vela mean", "Vela worst")
    rows = tuple(
        (
            _onoff(s.adapters),
            str(s.count),
            share(s.mean),
            percent(s.worst),
            *(f"{part:.0%}" for part in s.within),
            share(s.vela_mean),
            percent(s.vela_worst),
        )
        for s in summaries
    )
    return Table("Errors of NPU ACTIVE", headers, rows, (_VELA,))


_POINTS: dict[str, Callable[[PointScore], object]] = {
    "network": lambda score: score.point.network,
    "accelerator": lambda score: score.point.accelerator,
    "adapters": lambda score: _onoff(score.point.adapters),
    "FVP ACTIVE": lambda score: score.point.active,
    "ours": lambda score: score.cycles,
    "error": lambda score: percent(score.error),
    "Vela": lambda score: score.point.vela_cycles,
    "Vela error": lambda score: percent(score.vela_error) if score.point.vela_cycles else "",
}


def _points(title: str, scores: Sequence[PointScore], notes: tuple[str, ...], *, without: tuple[str, ...] = ()) -> Table:
    return Table.of(title, scores, {header: cell for header, cell in _POINTS.items() if header not in without}, notes)


def _whole_runs(scores: Sequence[WholeRunScore]) -> Table:
    rows = tuple(
        (s.run.network, s.run.accelerator, s.run.optimise, str(s.run.total), str(s.active), str(s.cycles), percent(s.error)) for s in scores
    )
    headers = ("network", "accelerator", "optimise", "FVP, whole run", "less idle", "ours", "error")
    return Table("Small kernels, cascade", headers, rows, (_CLAIM, _WHOLE_RUNS))


def _cells(beats: Sequence[BeatScore]) -> tuple[str, ...]:
    return tuple(cell for b in beats for cell in (str(b.ours), str(b.fvp), percent(b.error)))


def _beats(title: str, rows: Sequence[tuple[str, str, tuple[BeatScore, ...]]], note: str) -> Table:
    """Counted beats, each row with its network and accelerator."""
    ports = rows[0][2] if rows else ()
    headers = ("network", "accelerator", *(text for b in ports for text in (b.port, "FVP", "error")))
    return Table(title, headers, tuple((network, accelerator, *_cells(beats)) for network, accelerator, beats in rows), (note,))


def _counted(scores: Sequence[PointScore]) -> list[tuple[str, str, tuple[BeatScore, ...]]]:
    return [(score.point.network, score.point.accelerator, score.beats) for score in scores if score.beats]


_SWEEPS: dict[str, Callable[[SweepScore], object]] = {
    "network": lambda score: score.sweep.network,
    "accelerator": lambda score: score.sweep.accelerator,
    "sweep of": lambda score: score.sweep.knob,
    "SRAM cap": lambda score: score.sweep.sram_cap,
    "EXT latency": lambda score: score.sweep.ext_latency,
    "EXT cap": lambda score: score.sweep.ext_cap,
    "FVP TOTAL": lambda score: score.sweep.total,
    "ours": lambda score: score.cycles,
    "on the grid": lambda score: score.on_grid,
    "error": lambda score: percent(score.error),
    "resolution": lambda score: share(score.resolution),
}


def _operators(scores: Sequence[OperatorScore]) -> Table:
    rows = tuple(
        (
            "depthwise" if s.operator.depthwise else "conv2d",
            "x".join(map(str, s.operator.kernel)),
            *(str(one) for one in (s.operator.ifm, s.operator.ofm, s.operator.block)),
            *(str(one) for one in (s.operator.cycles, s.cycles, s.mac_cycles)),
            percent(s.error),
        )
        for s in scores
    )
    headers = ("operator", "kernel", "IFM", "OFM", "block", "expected", "ours", "of which MAC", "error")
    least = _least(scores)
    return Table("Single operators", headers, rows, (_SINGLE, least) if least else (_SINGLE,))


def score_tables(card: Scorecard) -> list[Table]:
    """The tables in reading order; InputError if there is no point to show."""
    if not card.points:
        raise InputError("The scorecard has 0 points: 1 or more are needed; replay the references first.")
    runs = [(run.run.stream, run.run.accelerator, run.beats) for run in card.whole_runs if run.beats]
    return [
        _bars(card.bars),
        _summaries(card.summaries),
        _points("NPU ACTIVE, cycles", card.points, (_CLAIM,)),
        _whole_runs(card.whole_runs),
        _points("Ethos-U65", card.u65, (_CLAIM, _U65), without=("Vela",)),
        _points("Ethos-U85", card.u85, (_CLAIM, _U85), without=("adapters", "Vela")),
        _points("Streams of older Velas", card.old, (_CLAIM, _OLD), without=("adapters", "Vela", "Vela error")),
        _beats("Data beats per AXI port", [*_counted((*card.points, *card.u65, *card.old)), *runs], _BEATS),
        _beats("Data beats of the Ethos-U85", _counted(card.u85), _DEEP_BEATS),
        Table.of("Sweeps of the timing adapters", card.sweeps, _SWEEPS, (_GRID, "A cap is in bus words per period, 0 for none.")),
        _operators(card.operators),
    ]
