"""Comparisons with Vela over several networks: a row for each, a row for each arena size, means, and where Vela is ahead.

Notes say how many of our wins over Vela hold under other timings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, fsum, log
from operator import attrgetter

from msgspec import Struct

from npu_testbed.comparisons.answer import (
    AT_PERFORMANCE_CYCLES,
    AT_SIZE_CYCLES,
    IN_PERFORMANCE_BYTES,
    SLOWEST,
    BestAnswer,
)
from npu_testbed.comparisons.comparison import NOISE, Comparison, SweepRow
from npu_testbed.comparisons.comparison_tables import comparison_json, convention, ends_line, failure_lines
from npu_testbed.comparisons.robust import RobustAnswer
from npu_testbed.comparisons.verdicts import Shortfall, Verdicts, vela_fits, verdicts
from npu_testbed.documents.comparison import ComparisonSummaryEntry
from npu_testbed.documents.document import extended
from npu_testbed.ground.failures import Failure
from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.searches.frontiers import FrontierPoint
from validation.fvp.undecided import undecided
from validation.tables import Table


def _sentence(what: str, wins: Sequence[tuple[str, RobustAnswer]]) -> str:
    lost = "; ".join(f"{name} ({one.ratio:.3f}, {one.low:.3f} to {one.high:.3f}) {one.verdict}" for name, one in wins if one.against)
    return f"{what}: {sum(one.holds for _, one in wins)} of {len(wins)} hold" + (f"; {lost}." if lost else ".")


def robust_notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Sentences on the comparisons that have verdicts under other timings; none if no comparison has them.

    Wins in bytes at Vela Size's cycles count, and wins in cycles of ``NOISE`` or more in Vela Performance's bytes.
    """
    asked = [(one, one.robust) for one in comparisons if one.robust is not None]
    if not asked:
        return ()
    both = [
        (one.frontier.model.removesuffix(".tflite"), answer, judged)
        for one, robust in asked
        for answer, judged in zip(one.answers, robust, strict=True)
        if judged is not None
    ]
    in_bytes = [(name, judged) for name, answer, judged in both if answer.condition == AT_SIZE_CYCLES and (answer.memory_ratio or 1) < 1]
    in_cycles = [(name, judged) for name, answer, judged in both if answer.condition == IN_PERFORMANCE_BYTES and judged.ratio <= 1 - NOISE]
    return (
        f"Under {len(undecided())} changes of the timing model that public data cannot exclude:",
        _sentence("Wins in bytes at Vela Size's cycles", in_bytes),
        _sentence(f"Wins in cycles of {NOISE:.0%} or more in Vela Performance's bytes", in_cycles),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of one or more positive ratios.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return exp(fsum(map(log, ratios)) / len(ratios))


_HEADERS = (
    "network",
    "Vela Size: bytes / cycles",
    "Vela Performance: bytes / cycles",
    "ours at Size's cycles or fewer: bytes",
    "ours, smallest: bytes / cycles",
    "ours at Performance's cycles or fewer: bytes",
    "ours at Performance's bytes or fewer: cycles",
)


def network_name(comparison: Comparison) -> str:
    """The network's name in a table."""
    return comparison.frontier.model.removesuffix(".tflite")


def _pair(point: VelaPoint | FrontierPoint) -> str:
    return f"{point.memory:,} / {point.cycles:,}"


def _answer(one: Comparison, condition: str) -> BestAnswer | None:
    """The answer to a condition; None if Vela has no schedule that sets the condition."""
    return next((answer for answer in one.answers if answer.condition == condition), None)


def _best(answer: BestAnswer | None, figure: Callable[[FrontierPoint], int], ratio: Callable[[BestAnswer], float | None]) -> str:
    """A figure of our answer with its ratio to Vela's."""
    if answer is None:
        return "-"
    found = ratio(answer)
    return "none found" if answer.ours is None or found is None else f"{figure(answer.ours):,} ({found:.3f})"


def _bytes(answer: BestAnswer | None) -> str:
    return _best(answer, attrgetter("memory"), attrgetter("memory_ratio"))


def _cycles(answer: BestAnswer | None) -> str:
    return _best(answer, attrgetter("cycles"), attrgetter("cycles_ratio"))


def _cells(one: Comparison) -> tuple[str, ...]:
    return (
        network_name(one),
        *("fails" if peer is None else _pair(peer) for peer in (one.size, one.performance)),
        _bytes(_answer(one, AT_SIZE_CYCLES)),
        _pair(one.frontier.points[0]),
        _bytes(_answer(one, AT_PERFORMANCE_CYCLES)),
        _cycles(_answer(one, IN_PERFORMANCE_BYTES)),
    )


def _mean(name: str, answers: Sequence[BestAnswer | None], ratio: Callable[[BestAnswer], float | None]) -> str:
    """The mean ratios of the networks that have an answer. Networks without one are counted, unless Vela has no schedule for them."""
    ratios = [ratio(answer) for answer in answers if answer is not None]
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return f"{name}: no network has a point that meets the condition."
    missing = f"; {len(ratios) - len(known)} of {len(ratios)} networks have no such point" if len(known) < len(ratios) else ""
    return f"{name}: {geometric_mean(known):.3f} by geometric mean over {len(known)}, worst {max(known):.3f}{missing}."


def summary_table(comparisons: Sequence[Comparison]) -> Table:
    """A row per network with the ratio to Vela's figure in brackets, and the geometric means."""
    at_size, at_cycles, in_bytes = (
        [_answer(one, condition) for one in comparisons] for condition in (AT_SIZE_CYCLES, AT_PERFORMANCE_CYCLES, IN_PERFORMANCE_BYTES)
    )
    memory, cycles = attrgetter("memory_ratio"), attrgetter("cycles_ratio")
    notes = (
        _mean("Our bytes per byte of Vela Size at its cycles or fewer", at_size, memory),
        _mean("Our bytes per byte of Vela Performance at its cycles or fewer", at_cycles, memory),
        _mean("Our cycles per cycle of Vela Performance at its bytes or fewer", in_bytes, cycles),
        *_failed_notes(comparisons),
        *robust_notes(comparisons),
        *_ends_notes(comparisons),
    )
    return Table("Beside Vela", _HEADERS, tuple(_cells(one) for one in comparisons), notes)


def _failed_notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The networks without a schedule of Vela's for Size or for Performance, with each core that failed and its reason."""
    without = [one for one in comparisons if one.size is None or one.performance is None]
    return tuple(f"{network_name(one)}: {line}" for one in without for line in failure_lines(one))


def _ends_notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Both ways to count bytes, for networks with tensors outside the arena."""
    found = []
    for one in comparisons:
        if one.frontier.points[0].schedule.network.homes:
            found += [f"{network_name(one)}: {ends_line(one)}", *(f"{network_name(one)}: {line}" for line in convention(one))]
    return tuple(found)


_SWEEP_HEADERS = ("network", "arena cache size", "Vela: bytes / cycles", "ours: bytes / cycles", "ours / Vela")


def _sweep_cells(one: Comparison, row: SweepRow) -> tuple[str, ...]:
    theirs = "fails" if row.vela is None else f"{row.vela.memory:,} overflows" if row.vela.overflows else _pair(row.vela)
    ours = f"{one.frontier.points[0].memory:,} at least" if row.ours is None else _pair(row.ours)
    ratio = "-" if row.cycles_ratio is None else f"{row.cycles_ratio:.3f}"
    return (network_name(one), f"{row.arena_cache_size:,}", theirs, ours, ratio)


def _at(one: Comparison, row: SweepRow) -> str:
    """One place of a sweep."""
    ratio = "does not fit" if row.cycles_ratio is None else f"{row.cycles_ratio:.3f}"
    return f"{network_name(one)} at {row.arena_cache_size:,} bytes ({ratio})"


def _same_size(rows: Sequence[tuple[Comparison, SweepRow]]) -> str:
    """Our cycles and Vela's at the sizes that Vela fits, in a sentence."""
    ratios = [row.cycles_ratio for _, row in rows if row.cycles_ratio is not None]
    if not ratios:
        return f"Sizes that Vela fits: {len(rows)}, of which ours fits none."
    good = sum(ratio <= SLOWEST for ratio in ratios)
    worst = max((pair for pair in rows if pair[1].cycles_ratio is not None), key=lambda pair: pair[1].cycles_ratio or 0)
    return (
        f"At {good} of {len(rows)} sizes that Vela fits ours takes at most {SLOWEST} of its cycles, "
        f"{geometric_mean(ratios):.3f} by geometric mean; worst {_at(*worst)}."
    )


def _sweep_notes(rows: Sequence[tuple[Comparison, SweepRow]]) -> tuple[str, ...]:
    fitted = [(one, row) for one, row in rows if vela_fits(row)]
    over = [row for _, row in rows if row.vela is not None and row.vela.overflows]
    failed = sum(row.vela is None for _, row in rows)
    notes = [_same_size(fitted)] if fitted else ["Vela fits none of the sizes."]
    slower = [_at(one, row) for one, row in fitted if row.cycles_ratio is None or row.cycles_ratio > SLOWEST]
    if slower:
        notes.append(f"Ours is slower at {len(slower)}: {', '.join(slower)}.")
    if over:
        notes.append(f"Sizes that Vela overflows: {len(over)}, of which ours fits {sum(row.ours is not None for row in over)}.")
    if failed:
        notes.append(f"Sizes at which Vela fails on both of its cores: {failed}.")
    return tuple(notes)


def sweep_table(comparisons: Sequence[Comparison]) -> Table:
    """A row per network and arena size: Vela's fastest that fits, ours, the ratio of their cycles, and how often ours is no slower."""
    rows = [(one, row) for one in comparisons for row in one.sweep]
    return Table("At the same arena size", _SWEEP_HEADERS, tuple(_sweep_cells(*pair) for pair in rows), _sweep_notes(rows))


def _gap_text(name: str, gap: Shortfall) -> str:
    beside = "each of ours needs more bytes" if gap.closest is None else f"ours {_pair(gap.closest)}"
    return f"{name} ({gap.vela.run.name}, {gap.vela.run.core} core, {_pair(gap.vela)}; {beside})"


def _verdict_notes(judged: Sequence[tuple[str, Verdicts]]) -> tuple[str, ...]:
    """The networks on which Vela is ahead, in bytes, cycles or both, and the schedules of Vela's that ours do not match."""
    lost = _list(name for name, one in judged if one.lost)
    both = _list(name for name, one in judged if one.worse_in_both)
    apart = _list(_gap_text(name, gap) for name, one in judged for gap in one.gaps)
    return (
        f"Vela is ahead, in bytes at Size's cycles or in cycles in Performance's bytes, on {lost}; in both, on {both}.",
        f"Schedules of Vela's that ours does not match in their bytes and {SLOWEST} of their cycles: {apart}.",
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


class ComparisonSummary(Struct, frozen=True):
    """The comparisons of several networks on one accelerator and memory system, and those that failed."""

    accelerator: str
    memory_system: str
    comparisons: tuple[Comparison, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are comparisons, none failed, and every one passes its verdicts."""
        return bool(self.comparisons) and not self.failures and all(verdicts(one).passed for one in self.comparisons)

    def tables(self) -> tuple[Table, ...]:
        """A row per network with verdicts and failures, and a row per arena size."""
        place = f"{self.accelerator}, {self.memory_system}"
        whole, sweep = summary_table(self.comparisons), sweep_table(self.comparisons)
        judged = [(network_name(one), verdicts(one)) for one in self.comparisons]
        notes = (*whole.notes, *_verdict_notes(judged), *(failure.sentence for failure in self.failures))
        return (
            Table(f"{whole.title}, {place}", whole.headers, whole.rows, notes),
            Table(f"{sweep.title}, {place}", sweep.headers, sweep.rows, sweep.notes),
        )

    def to_json(self) -> ComparisonSummaryEntry:
        """All comparisons as ``npu-testbed compare --json`` prints them, and by verdict the networks on which Vela is ahead."""
        judged = [(one.frontier.model, verdicts(one)) for one in self.comparisons]
        return extended(
            ComparisonSummaryEntry,
            self,
            networks=tuple(map(comparison_json, self.comparisons)),
            lost=[name for name, one in judged if one.lost],
            worse_in_both=[name for name, one in judged if one.worse_in_both],
            slower_at_a_size=[name for name, one in judged if one.slower],
        )
