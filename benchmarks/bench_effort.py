# ruff: noqa: INP001  # a script of its own, no package
"""Quality against effort: the replayed cycles of each named effort relative to the highest effort, and what they took.

    python benchmarks/bench_effort.py MODEL:BYTES[,BYTES...] [MODEL:BYTES ...]

A row per network and budget: for each effort the cycles relative to ``thorough`` and the CPU seconds of this process, which does
everything; Vela's compilation is left out. The last rows have the geometric mean, the worst and the sum.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import prod

from tabulate import tabulate

from cascader import schedule
from cascader.ethosu.search.effort import EFFORTS
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from sim import quick_cycles


def measure(source: str, budget: int) -> list[tuple[int, float]]:
    """Cycles and CPU seconds of each effort."""
    found = []
    for effort in EFFORTS:
        start = time.process_time()
        choice = schedule(requested(source, budget=budget, effort=effort), quick_cycles)
        found.append((choice.point.cycles, time.process_time() - start))
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL:BYTES")
    given = [model.rpartition(":") for model in parser.parse_args().models]
    cases = [(source, int(budget)) for source, _, budgets in given for budget in budgets.split(",")]
    table, ratios, seconds = [], [], []
    try:
        for source, budget in cases:
            found = measure(source, budget)
            ratios.append([cycles / found[-1][0] for cycles, _ in found])
            seconds.append([taken for _, taken in found])
            pairs = zip(ratios[-1], seconds[-1], strict=True)
            table.append([source.rpartition("/")[2], f"{budget:,}", *(f"{ratio:.4f} in {taken:.1f} s" for ratio, taken in pairs)])
            sys.stderr.write(f"{source} in {budget:,} bytes\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    columns = list(zip(*ratios, strict=True))
    table.append(["geometric mean", "", *(f"{prod(column) ** (1 / len(column)):.4f}" for column in columns)])
    table.append(["worst", "", *(f"{max(column):.4f}" for column in columns)])
    table.append(["sum", "", *(f"{sum(column):.1f} s" for column in zip(*seconds, strict=True))])
    sys.stdout.write(tabulate(table, ["network", "bytes", *EFFORTS], disable_numparse=True, stralign="right") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
