"""Findings as tables: for a terminal, and for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from npu_testbed.comparisons.summary import geometric_mean
from npu_testbed.documents.portfolio import BytesAndCycles
from npu_testbed.portfolio.verdict import Check, Examined, Report
from validation.portfolio import portfolio_network
from validation.tables import Table, items

_HEADERS = (
    "network",
    "Vela Size: bytes / cycles",
    "Vela Performance: bytes / cycles",
    "ours, smallest: bytes",
    "in Size's bytes: cycles",
    "in Performance's bytes: cycles",
    "verified",
)


def _pair(point: BytesAndCycles) -> str:
    return f"{point.memory:,} / {point.cycles:,}"


def _cycles(own: BytesAndCycles | None, peer: BytesAndCycles) -> str:
    return "none fits" if own is None else f"{own.cycles:,} ({own.cycles / peer.cycles:.3f})"


def _cells(finding: Examined) -> tuple[str, ...]:
    if finding.no_peer and finding.ours is not None:
        own = finding.ours.smallest
        return (finding.network, "none valid", "none valid", f"{own.memory:,}", "-", "-", finding.check.value)
    if finding.vela is None or finding.ours is None:
        return (finding.network, *("-",) * (len(_HEADERS) - 2), "failed")
    size, performance, least = finding.vela.size, finding.vela.performance, finding.ours.smallest.memory
    return (
        finding.network,
        _pair(size),
        _pair(performance),
        f"{least:,} ({least / size.memory:.3f})",
        _cycles(finding.ours.in_size_bytes, size),
        _cycles(finding.ours.in_performance_bytes, performance),
        finding.check.value,
    )


def _place(finding: Examined) -> str:
    return f"{finding.accelerator}, {finding.memory_system}"


def _shortcomings(finding: Examined) -> tuple[str, ...]:
    """A sentence for each missed bar, failure and difference."""
    found = []
    if finding.failure:
        found.append(f"{finding.network} fails: {finding.failure}")
    if finding.misses:
        found.append(f"{finding.network} {', '.join(finding.misses)}.")
    if finding.no_peer and finding.check is Check.NOT_ASKED:
        found.append(f"{finding.network} has no valid stream of Vela's beside it, and its outputs were not verified.")
    if finding.check in {Check.DIFFERS, Check.FAILED}:
        found.append(f"{finding.network} {finding.check.value}: {finding.remark}")
    return tuple(found)


def _left_out(failures: Sequence[str]) -> Iterator[str]:
    """Schedules of Vela's that are left out, with the reasons; schedules with the same reason share a line."""
    reasons: dict[str, list[str]] = {}
    for failure in failures:
        schedule, _, reason = failure.partition(": ")
        reasons.setdefault(reason, []).append(schedule)
    for reason, schedules in reasons.items():
        yield f"left out, {' and '.join(schedules)}: {reason}"


def _remarks(finding: Examined) -> tuple[str, ...]:
    """Notes that are not misses but must be known: named exceptions, and cores of Vela that are left out."""
    named = (f"{finding.network}: {finding.remark}",) if finding.check is Check.EXCEPTION else ()
    failures = finding.vela.failures if finding.vela is not None else ()
    alone = (f"{finding.network}: no valid stream of Vela's. {finding.no_peer}",) if finding.no_peer else ()
    return (*named, *alone, *(f"{finding.network}: {sentence}" for sentence in _left_out(failures)))


def _mean(name: str, ratios: Sequence[float]) -> tuple[str, ...]:
    return (f"{name}: {geometric_mean(ratios):.3f} by geometric mean over {len(ratios)}, worst {max(ratios):.3f}.",) if ratios else ()


def totals(findings: Sequence[Examined]) -> tuple[str, ...]:
    """The number of networks, the number that miss a bar, and the means of the ratios."""
    both = [(finding.ours, finding.vela) for finding in findings if finding.ours is not None and finding.vela is not None]
    counted = [check for finding in findings if (check := finding.check) is not Check.NOT_ASKED and not finding.failure]
    passed, missed, failed = (sum(map(bool, some)) for some in zip(*((f.passed, f.misses, f.failure) for f in findings), strict=True))
    alone = sum(bool(finding.no_peer) for finding in findings)
    verified = f"{counted.count(Check.EXACT)} of {len(counted)} verified bit by bit, {counted.count(Check.EXCEPTION)} differ as named"
    return (
        f"{len(findings)} networks: {passed} pass, {missed} miss a bar, {failed} fail; {verified}.",
        *((f"Of {alone} of them neither of Vela's cores makes a valid stream.",) if alone else ()),
        *_mean("Our smallest bytes per byte of Vela Size", [own.smallest.memory / peer.size.memory for own, peer in both]),
        *_mean(
            "Our cycles per cycle of Vela Size in its bytes",
            [own.in_size_bytes.cycles / peer.size.cycles for own, peer in both if own.in_size_bytes is not None],
        ),
        *_mean(
            "Our cycles per cycle of Vela Performance in its bytes",
            [own.in_performance_bytes.cycles / peer.performance.cycles for own, peer in both if own.in_performance_bytes is not None],
        ),
    )


def tables(report: Report) -> tuple[Table, ...]:
    """A table for each accelerator, with a row per network, totals, and every miss by name."""
    found = []
    for place, members in groupby(report.findings, _place):
        findings = list(members)
        notes = [*totals(findings)]
        notes += [text for sentences in (_shortcomings, _remarks) for finding in findings for text in sentences(finding)]
        found.append(Table(f"Portfolio beside Vela, {place}", _HEADERS, tuple(map(_cells, findings)), tuple(notes)))
    return tuple(found)


_INTRODUCTION = """# Portfolio

Networks that the package builds itself (`portfolio:NAME`), as `npu-testbed validate portfolio --page` wrote them down:
our schedules beside Vela's, the better of its two cores, all replayed by one simulator; in brackets the ratio to Vela's
figure. Verified: the outputs of our smallest schedule are those of LiteRT's reference kernels, bit by bit.

The bar: no network where Vela Size needs fewer bytes than our smallest schedule, and none where ours, in Vela Size's or
Vela Performance's bytes, takes more than 1.01 of its cycles.

Of some networks neither of Vela's cores makes a valid stream: it crashes, or computes something else. There is nothing
to compare with then, and the row says so; ours passes if its outputs are LiteRT's.

`validate portfolio --drawn 20 --seed 1000` holds the same bar to `portfolio:drawn_1000` and the nineteen that follow:
networks that nobody wrote down, of sizes, blocks and operators that people combine, drawn from their numbers and the
same everywhere.
"""


def page(report: Report) -> str:
    """The findings as a Markdown page: for each accelerator the totals, all misses, a table per group, and remarks."""
    lines = [_INTRODUCTION]
    for place, members in groupby(report.findings, _place):
        findings = list(members)
        lines += [f"## {place}", ""]
        lines += [f"{sentence}\n" for sentence in totals(findings)]
        missed = [text for finding in findings for text in _shortcomings(finding)]
        lines += ["### Misses", "", *items(missed or ["None."]), ""]
        for group, some in groupby(findings, lambda finding: finding.group):
            table = Table(group, _HEADERS, tuple(map(_cells, some)))
            lines.append(f"#{table.markdown()}".replace(f"## {group}", f"## {group[:1].upper()}{group[1:]}"))
        remarks = [text for finding in findings for text in _remarks(finding)]
        lines += ["### Remarks", "", *items(remarks), ""] if remarks else []
    names = dict.fromkeys(finding.network for finding in report.findings)
    lines += ["## What each network stands for", "", *items([f"`{name}`: {portfolio_network(name).idiom}." for name in names])]
    return "\n".join(lines).rstrip() + "\n"
