"""A calibration and a check as tables for a terminal or a page."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from math import ceil, floor

from validation.calibrate.bootstrap import COVERAGE, RESAMPLES
from validation.calibrate.calibration import CalibrationCheck
from validation.calibrate.profile import CalibrationProfile
from validation.fvp.scores import relative
from validation.tables import Table, percent, share


def _errors(profile: CalibrationProfile) -> Table:
    errors = profile.errors
    rows = [
        ("default parameters", str(len(profile.points)), share(errors.default_mean), percent(errors.default_worst)),
        ("fitted, in sample", str(len(profile.points)), share(errors.mean), percent(errors.worst)),
    ]
    for kind in ("network", "accelerator"):
        held_out = profile.held_out(kind)
        if held_out.count:
            rows.append((f"leave one {kind} out", str(held_out.count), share(held_out.mean), percent(held_out.worst)))
    low, high = floor(errors.mean_low * 1e4) / 1e2, ceil(errors.mean_high * 1e4) / 1e2
    note = f"Bootstrap of the fitted mean error, {COVERAGE:.0%}: {low:.2f} to {high:.2f} %."
    return Table("Errors of NPU ACTIVE", ("parameters", "points", "mean error", "worst"), tuple(rows), (note,))


def _shorter(value: float, rounding: str) -> str:
    """A value with three digits, rounded downwards or upwards."""
    return f"{Context(prec=3, rounding=rounding).create_decimal(repr(value)):.3g}"


def _fitted(profile: CalibrationProfile) -> Table:
    rows = tuple(
        (
            f.name,
            f.default,
            f.value,
            f"{_shorter(f.interval_low, ROUND_FLOOR)} to {_shorter(f.interval_high, ROUND_CEILING)}",
            f"{f.lower} to {f.upper}",
        )
        for f in profile.fitted
    )
    note = (
        f"Intervals: {RESAMPLES} resamples of the points, each solved on the linear model at the minimum that suits it best, and every "
        f"minimum within the noise, rounded outwards; seed {profile.seed}."
    )
    names = ", ".join(profile.undecided)
    notes = (note, f"Not decided by these measurements, other values are as good: {names}.") if names else (note,)
    return Table("Fitted parameters", ("parameter", "default", "fitted", f"{COVERAGE:.0%} interval", "bounds"), rows, notes)


def _sets(profile: CalibrationProfile) -> Table:
    rows = tuple((*close.values, share(close.mean), str(close.draws)) for close in profile.sets)
    note = f"Draws: how many of {RESAMPLES} resamples each set suits best. Equal sets share the draws of the first."
    return Table("Parameter sets within the noise", (*(f.name for f in profile.fitted), "mean error", "draws"), rows, (note,))


def _folds(profile: CalibrationProfile) -> Table:
    rows = tuple((f.kind, f.left_out, str(f.count), share(f.mean), percent(f.worst)) for f in profile.folds)
    return Table("Errors on what a fit has not seen", ("kind", "left out", "points", "mean error", "worst"), rows)


def fit_tables(profile: CalibrationProfile) -> list[Table]:
    """The fitted values, the errors, the folds and the points."""
    rows = tuple((p.name, str(p.npu_active), str(p.cycles), percent(relative(p.cycles, p.npu_active))) for p in profile.points)
    points = Table("Measurements", ("measurement", "NPU_ACTIVE", "fitted", "error"), rows)
    sets = [_sets(profile)] if len(profile.sets) > 1 else []
    return [_fitted(profile), _errors(profile), _folds(profile), *sets, points]


def check_tables(check: CalibrationCheck) -> list[Table]:
    """The verdict, the points, and the beats where they were measured."""
    held_out = check.profile.held_out("network")
    verdict = (
        ("replayed cycles other than the profile records", "0", str(len(check.drifted)), "MISSED" if check.drifted else "passed"),
        (
            "leave-one-network-out error",
            share(check.most),
            share(held_out.mean),
            "passed" if check.generalises else "MISSED",
        ),
    )
    rows = tuple(
        (
            p.name,
            "yes" if p.recorded is not None else "no",
            str(p.npu_active),
            str(p.cycles),
            percent(p.error),
            percent(p.default_error),
        )
        for p in check.points
    )
    notes = tuple(
        f"{len_} measurements that the fit {what}: mean error {share(mean)}, worst {percent(worst)}."
        for what, len_, mean, worst in (
            ("saw", check.seen.count, check.seen.mean, check.seen.worst),
            ("has not seen", check.unseen.count, check.unseen.mean, check.unseen.worst),
        )
        if len_
    )
    headers = ("measurement", "fitted to it", "NPU_ACTIVE", "cycles", "error", "default error")
    tables = [
        Table("Verdict", ("figure", "bar", "found", "verdict"), verdict),
        Table("Measurements", headers, rows, notes),
    ]
    beats = tuple((p.name, b.port, str(b.fvp), str(b.ours), percent(b.error)) for p in check.points for b in p.beats)
    if beats:
        tables.append(Table("Data beats", ("measurement", "counter", "measured", "ours", "error"), beats))
    return tables
