# ruff: noqa: INP001  # a script of its own, no package
"""Wins over Vela under other timings: the table of docs/memory.md and the sentences that count it.

``python benchmarks/bench_robust.py MODEL ...`` prints a Markdown row for each model as soon as it is known. The row has our schedules at
Vela Size's cycles and in Vela Performance's bytes, each with the range of the ratio of cycles and the verdict.
"""

from __future__ import annotations

import sys
from pathlib import Path

from npu_testbed.asked.request import requested
from npu_testbed.comparisons.answer import AT_SIZE_CYCLES, IN_PERFORMANCE_BYTES
from npu_testbed.comparisons.comparison import Comparison, Sides, compare
from npu_testbed.comparisons.robust import RobustAnswer
from npu_testbed.comparisons.summary import robust_notes

HEADER = (
    "| network | bytes / Vela Size's, at its cycles | verdict | cycles / Vela Performance's, in its bytes | verdict |",
    "| --- | --- | --- | --- | --- |",
)


def cells(ratio: float | None, found: RobustAnswer | None) -> list[str]:
    """A ratio with the range of the cycles' ratio in brackets, and the verdict; dashes if there is no answer."""
    if ratio is None or found is None:
        return ["-", "-"]
    return [f"{ratio:.3f} ({found.low:.3f} to {found.high:.3f})", found.verdict.replace("depends on:", "depends:")]


def row(comparison: Comparison) -> str:
    """The row of a comparison; dashes where it has no verdicts."""
    robust = comparison.robust or (None,) * len(comparison.answers)
    judged = {answer.condition: (answer, verdict) for answer, verdict in zip(comparison.answers, robust, strict=True)}
    (size, in_bytes), (performance, in_cycles) = judged[AT_SIZE_CYCLES], judged[IN_PERFORMANCE_BYTES]
    found = [*cells(size.memory_ratio, in_bytes), *cells(performance.cycles_ratio, in_cycles)]
    return f"| {' | '.join([Path(comparison.frontier.model).stem, *found])} |"


def say(*lines: str) -> None:
    """Print lines of the page at once."""
    print("\n".join(lines), flush=True)  # noqa: T201  # what the script is for


def main(models: list[str]) -> None:
    """Print the table and the sentences that count it."""
    say(*HEADER)
    comparisons = []
    for model in models:
        comparisons.append(compare(requested(model, rungs=4), sides=Sides(sweep=0, robust=True)))
        say(row(comparisons[-1]))
    say("", *robust_notes(comparisons))


if __name__ == "__main__":
    main(sys.argv[1:])
