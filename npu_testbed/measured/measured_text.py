"""The measurement and the replay, as a text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from npu_testbed.documents.document import extended
from npu_testbed.documents.replay import CounterEntry, MeasurementEntry
from npu_testbed.measured.rows import Beside, MeasuredRow
from npu_testbed.replays.layer_names import all_shortened, first_operator
from validation.fvp.scores import relative
from validation.layout import filled, grid
from validation.tables import percent

_HEADERS = ("layer", "operator", "kernels", "measured", "replayed", "difference", "error")


def _cells(row: MeasuredRow, name: str, *, is_sampled: bool) -> tuple[str, ...]:
    margin = "" if row.margin is None else f"{row.margin:,}"
    measured = (f"{row.measured:,}", margin) if is_sampled else (f"{row.measured:,}",)
    difference = f"{row.difference:+,}" if row.difference else "0"
    kernels = f"{row.kernels:,}" if row.kernels else "-"
    return name, first_operator(row.operator), kernels, *measured, f"{row.replayed:,}", difference, percent(row.error)


def _sum(name: str, rows: Sequence[MeasuredRow]) -> MeasuredRow:
    measured, replayed, kernels = (sum(getattr(row, key) for row in rows) for key in ("measured", "replayed", "kernels"))
    return MeasuredRow(name, "", kernels, measured, replayed)


def _folded(rows: Sequence[MeasuredRow], min_percent: float) -> list[MeasuredRow]:
    """The rows with at least ``min_percent`` of the cycles on either side or as difference, and one row for all others."""
    bars = [min_percent * sum(getattr(row, key) for row in rows) / 100 for key in ("measured", "replayed")]
    large = [row for row in rows if row.measured >= bars[0] or row.replayed >= bars[1] or abs(row.difference) >= bars[0]]
    small = [row for row in rows if row not in large]
    return list(rows) if len(small) < 2 else [*large, _sum(f"{len(small)} layers below {min_percent:g} %", small)]


def measured_note(beside: Beside) -> str:
    """The sentences on the meaning of a row, and on the limits of the measurement."""
    if beside.kind == "counters":
        return "The counters of a whole inference, by PMU event; those that the replay does not count are left out."
    if beside.kind == "layers":
        missing = f" {beside.missing} other layers were not measured." if beside.missing else ""
        return f"A layer's cycles are those of the table above.{missing}"
    cut = "A row is the time from the issue of a layer's commands to the issue of the next ones, on both sides."
    if beside.kind == "samples":
        runs = f"{beside.runs:,} samples, with half of their 95 % interval (+/-)."
    else:
        runs = f"The mean of {beside.runs:,} inferences." if beside.runs > 1 else ""
    scaled = "The measurement counts no cycles and is taken to last as long as the replay: --measured-cycles says how long."
    return " ".join(filter(None, (cut, runs, scaled if beside.is_scaled else "")))


def measured_text(beside: Beside, min_percent: float = 0.0) -> str:
    """The table, the largest difference first, with its sum; layers below ``min_percent`` of the cycles are one row."""
    if beside.kind == "counters":
        return _counters_text(beside)
    is_sampled = beside.kind == "samples"
    headers = [*_HEADERS[:4], "+/-", *_HEADERS[4:]] if is_sampled else list(_HEADERS)
    rows = [*_folded(beside.rows, min_percent), _sum("total", beside.rows)]
    left = [header in {"layer", "operator"} for header in headers]
    every = [row.layer for row in beside.rows]
    short = dict(zip(every, all_shortened(every), strict=True))
    table = grid(headers, [_cells(row, short.get(row.layer, row.layer), is_sampled=is_sampled) for row in rows], left)
    heading = "Measured and replayed, the largest difference first:"
    return "\n".join([filled(heading), "", table, filled(measured_note(beside))])


def _counters_text(beside: Beside) -> str:
    """The table of the counters of a whole inference."""
    rows = []
    for name, measured, replayed in beside.counters:
        error = percent(relative(replayed, measured)) if measured else "-"
        rows.append((name, f"{measured:,}", f"{replayed:,}", f"{replayed - measured:+,}" if replayed != measured else "0", error))
    table = grid(("counter", "measured", "replayed", "difference", "error"), rows, (True, False, False, False, False))
    return "\n".join(["Measured and replayed:", "", table, filled(measured_note(beside))])


def measured_json(beside: Beside) -> MeasurementEntry:
    """The rows with the largest difference first; errors are ratios."""
    total = _sum("total", beside.rows)
    counters = tuple(CounterEntry(*counter) for counter in beside.counters)
    return extended(MeasurementEntry, beside, measured_cycles=total.measured, replayed_cycles=total.replayed, counters=counters)
