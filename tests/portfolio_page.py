"""The table validation/portfolio/measured.csv measured anew: ``PYTHONPATH=.:tests python tests/portfolio_page.py RESULTS``.

Examines every network of the portfolio on 128 MACs, except those whose findings the folder RESULTS keeps. Writes the table, and what
docs/portfolio.md says of it.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

from cascader.ethosu.search.request import Run
from npu_testbed.asked.request import requested
from npu_testbed.ground.csv_file import csv_file
from npu_testbed.portfolio import examine_all
from npu_testbed.portfolio.verdict import Examined, Report
from validation.portfolio import NETWORKS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "portfolio.md"
TABLE = ROOT / "validation" / "portfolio" / "measured.csv"

COLUMNS = (
    *("accelerator", "group", "network", "vela_size_bytes", "vela_size_cycles", "vela_performance_bytes", "vela_performance_cycles"),
    *("our_bytes", "our_cycles_in_size_bytes", "our_cycles_in_performance_bytes", "verified", "remark"),
)
_TOTALS = re.compile(r"(<!-- totals -->\n).*?(\n<!-- end -->)", re.DOTALL)
_FIGURES = re.compile(r"^Figures of .*$", re.MULTILINE)


def _row(finding: Examined) -> tuple[object, ...]:
    vela, ours = finding.vela, finding.ours
    peers = (vela.size.memory, vela.size.cycles, vela.performance.memory, vela.performance.cycles) if vela else ("",) * 4
    points = (ours.smallest, ours.in_size_bytes, ours.in_performance_bytes) if ours else (None,) * 3
    own = (points[0].memory if points[0] else "", *(point.cycles if point else "" for point in points[1:]))
    remark = " ".join(text for text in (finding.failure, finding.no_peer, finding.remark, *(vela.failures if vela else ())) if text)
    return (finding.accelerator, finding.group, finding.network, *peers, *own, finding.check.value, remark)


def table(report: Report) -> bytes:
    """The findings as the table that the package holds."""
    return csv_file([COLUMNS, *map(_row, report.findings)])


def rows() -> list[dict[str, str]]:
    """The rows of the table that the package holds."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _ratios(found: list[dict[str, str]], own: str, peer: str) -> list[float]:
    return [int(row[own]) / int(row[peer]) for row in found if row[own] and row[peer]]


def totals(found: list[dict[str, str]]) -> str:
    """The means of the ratios to Vela's figures, by group and over all, as a table of Markdown."""
    groups: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in found:
        groups[row["group"]].append(row)
    lines = [
        "| group | networks | our bytes, relative to Vela Size | cycles in Vela Size's bytes | cycles in Vela Performance's bytes |",
        "| --- | --: | --: | --: | --: |",
    ]
    kinds = [
        ("our_bytes", "vela_size_bytes"),
        ("our_cycles_in_size_bytes", "vela_size_cycles"),
        ("our_cycles_in_performance_bytes", "vela_performance_cycles"),
    ]
    for name, some in (*groups.items(), ("all", found)):
        means = [geometric_mean(_ratios(some, own, peer)) for own, peer in kinds]
        lines.append(f"| {name} | {len(some)} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
    worst = [max(_ratios(found, own, peer)) for own, peer in kinds]
    lines.append(f"| worst network | | {' | '.join(f'{ratio:.3f}' for ratio in worst)} |")
    return "\n".join(lines)


def with_totals(page: str, found: list[dict[str, str]], figures: str | None = None) -> str:
    """A page with the totals of these rows, and the line that says of which commit they are."""
    text = _TOTALS.sub(lambda match: f"{match[1]}{totals(found)}{match[2]}", page)
    return _FIGURES.sub(f"Figures of {figures}.", text, count=1) if figures else text


def of_this_commit() -> str:
    """The date and the name of the commit that is checked out."""
    asked = ["git", "log", "-1", "--format=%ad, commit %h", "--date=short"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(results: str) -> None:
    """Measure, and write the table and the page."""
    report = examine_all([requested(f"portfolio:{network.name}") for network in NETWORKS], Run(None, print), results=Path(results))
    TABLE.write_bytes(table(report))
    PAGE.write_text(with_totals(PAGE.read_text(encoding="utf-8"), rows(), of_this_commit()), encoding="utf-8")
    sys.stdout.write(f"{sum(one.passed for one in report.findings)} of {len(report.findings)} pass.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
