# ruff: noqa: INP001  # a script of its own, no package
"""Quality against effort: the replayed cycles of each named effort relative to the highest effort, and what they took.

    python benchmarks/bench_effort.py MODEL:BYTES[,BYTES...] [MODEL:BYTES ...] [--accelerator-config NAME] [--effort NAME ...]

A row per network and budget (0: none): for each effort the cycles relative to the last one's, the CPU seconds of this process, which does
everything, and the search's estimate minus the replay. Vela's compilation is left out. The last rows have the geometric mean, the worst
and the sum. ``--system-config`` and ``--memory-mode`` choose the memories; in Dedicated_Sram the budget is of the fast scratch.
"""

from __future__ import annotations

import argparse
import sys
import time
from math import prod
from typing import Any

from tabulate import tabulate

from cascader.ethosu.search.effort import EFFORTS
from cascader.ethosu.search.request import Run
from cascader.verbs import chosen
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names
from npu_model.errors import InputError
from npu_testbed.asked.ask import OnMemory
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task


def measure(source: str, budget: int, options: argparse.Namespace) -> list[tuple[int, float, float]]:
    """Cycles, CPU seconds, and the estimate's relative error of each effort."""
    found = []
    for effort in options.effort:
        memory = OnMemory[Any](system_config=options.system_config, memory_mode=options.memory_mode)
        request = requested(source, options.accelerator_config, memory, budget=budget or None, effort=effort)
        task, start = load_task(request), time.process_time()
        point = chosen(task, request, Run(1)).point
        found.append((point.cycles, time.process_time() - start, point.estimate / point.cycles - 1))
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL:BYTES")
    parser.add_argument("--accelerator-config", choices=accelerator_names(), default=DEFAULT_ACCELERATOR)
    parser.add_argument("--effort", nargs="+", choices=EFFORTS, default=EFFORTS)
    parser.add_argument("--system-config")
    parser.add_argument("--memory-mode")
    options = parser.parse_args()
    given = [model.rpartition(":") for model in options.models]
    cases = [(source, int(budget)) for source, _, budgets in given for budget in budgets.split(",")]
    table, ratios, seconds = [], [], []
    try:
        for source, budget in cases:
            found = measure(source, budget, options)
            ratios.append([cycles / found[-1][0] for cycles, *_ in found])
            seconds.append([taken for _, taken, _ in found])
            cells = [f"{cycles / found[-1][0]:.4f} in {taken:.1f} s, {error:+.1%}" for cycles, taken, error in found]
            table.append([source.rpartition("/")[2], f"{budget:,}", *cells])
            sys.stderr.write(f"{source} in {budget:,} bytes\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    columns = list(zip(*ratios, strict=True))
    table.append(["geometric mean", "", *(f"{prod(column) ** (1 / len(column)):.4f}" for column in columns)])
    table.append(["worst", "", *(f"{max(column):.4f}" for column in columns)])
    table.append(["sum", "", *(f"{sum(column):.1f} s" for column in zip(*seconds, strict=True))])
    sys.stdout.write(tabulate(table, ["network", "bytes", *options.effort], disable_numparse=True, stralign="right") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
