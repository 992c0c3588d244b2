# ruff: noqa: INP001  # a script of its own, no package
"""Cycles of `schedule` in many arenas, recorded by one checkout and compared with another checkout's.

    python benchmarks/bench_budgets.py record BEFORE.json MODEL ... [--count 24]
    python benchmarks/bench_budgets.py record AFTER.json --like BEFORE.json
    python benchmarks/bench_budgets.py compare BEFORE.json AFTER.json

``record`` schedules each network in that many arenas, in equal ratios from the smallest to the one that the fastest schedule takes, or in
those of another file. ``compare`` divides the cycles of each by those of the earlier file's fastest schedule that fits. To record what an
older commit finds, set PYTHONPATH to a checkout of it with compiled cores, and run this script as it stands here. The older commit must
have today's timing of the NPU, or the cycles are not comparable.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

from cascader.ethosu.search.request import Request, Source
from cascader.verbs import chosen
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task

Recorded = dict[str, list[list[int]]]
"""For each model a line an arena: bytes asked for, bytes and cycles of the schedule."""


def _schedule(task: Any, budget: int | None, optimise: str = "Performance") -> tuple[int, int]:
    """Bytes and cycles of the schedule in an arena."""
    point = chosen(task, Request(Source(""), task.accelerator, task.system, budget, optimise)).point
    return point.memory, point.cycles


def arenas(task: Any, count: int) -> list[int]:
    """So many arenas in bytes, in equal ratios from the smallest to the one that the fastest schedule takes."""
    (low, _), (high, _) = _schedule(task, None, "Size"), _schedule(task, None)
    sizes = (low * (high / low) ** (at / (count - 1)) for at in range(count))
    return sorted({max(low, int(size) // 16 * 16) for size in sizes})


def record(file: Path, models: list[str], count: int, like: Path | None) -> None:
    """Write what `schedule` finds, after each network anew; what the file has is not found again."""
    asked = {} if like is None else json.loads(like.read_text())
    found: Recorded = json.loads(file.read_text()) if file.exists() else {}
    for model in models or asked:
        if model in found:
            continue
        begun, task = time.process_time(), load_task(requested(model))
        budgets = [line[0] for line in asked[model]] if like is not None else arenas(task, count)
        found[model] = [[budget, *_fitting(task, budget)] for budget in budgets]
        file.write_text(json.dumps(found, indent=1) + "\n")
        sys.stderr.write(f"{model}: {len(budgets)} arenas, {time.process_time() - begun:.0f} CPU seconds\n")


def _fitting(task: Any, budget: int) -> tuple[int, int]:
    """Bytes and cycles; both 0 where nothing fits."""
    try:
        return _schedule(task, budget)
    except InputError:
        return 0, 0


def ratios(before: list[list[int]], after: list[list[int]]) -> list[tuple[int, float]]:
    """The arenas, each with the cycles in multiples of those of the earlier file's fastest schedule that fits; none where one is missing.

    >>> ratios([[100, 96, 50], [200, 200, 60]], [[100, 100, 50], [200, 160, 45], [300, 0, 0]])
    [(100, 1.0), (200, 0.9)]
    """
    found = []
    for budget, memory, cycles in after:
        earlier = [other for _, at, other in before if 0 < at <= budget]
        if memory and earlier:
            found.append((budget, cycles / min(earlier)))
    return found


def compare(before: Recorded, after: Recorded) -> None:
    """Print a line for each network, and one for all."""
    every = []
    for model, lines in after.items():
        found = ratios(before[model], lines)
        every += [ratio for _, ratio in found]
        budget, worst = max(found, key=lambda pair: pair[1])
        say(f"{model}: {len(found)} arenas, mean {mean([r for _, r in found]):.4f}, worst {worst:.4f} in {budget:,} bytes")
    worse = sum(ratio > 1.01 for ratio in every)
    say(f"all: {len(every)} arenas, mean {mean(every):.4f}, worst {max(every):.4f}, {worse} worse by over a per cent")


def mean(some: list[float]) -> float:
    """The geometric mean."""
    return prod(some) ** (1 / len(some))


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201  # what the script is for


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="record the schedules of some networks")
    recording.add_argument("file", type=Path, help="the JSON file to write, or to go on with")
    recording.add_argument("models", nargs="*", metavar="MODEL")
    recording.add_argument("--count", type=int, default=24, help="arenas of each network (default: 24)")
    recording.add_argument("--like", type=Path, help="the file whose networks and arenas are asked for")
    comparing = verbs.add_parser("compare", help="set two recordings beside each other")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.verb == "compare":
        compare(json.loads(options.before.read_text()), json.loads(options.after.read_text()))
    else:
        record(options.file, options.models, options.count, options.like)
    return 0


if __name__ == "__main__":
    sys.exit(main())
