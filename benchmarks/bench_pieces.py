# ruff: noqa: INP001  # a script of its own, no package
"""Worth of the forms of a network: the fastest schedule of each form within some arenas, replayed.

    python benchmarks/bench_pieces.py MODEL.tflite|zoo:NAME BYTES [BYTES ...] [--accelerator-config NAME]

A row per arena, a column per form that the search makes of the network (layouts, sizes of pieces), named by its number of parts: the
cycles, relative to the best form's, which the last column has.
"""

from __future__ import annotations

import argparse
import sys

from tabulate import tabulate

from cascader.ethosu.search.limits import LimitRequest
from cascader.ethosu.search.replays import replayed
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.search.workers import default_processes, workers
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task


def rows(task: Task, budgets: tuple[int, ...]) -> tuple[list[str], list[list[str]]]:
    """The forms' names, and for each arena in bytes how much slower than the best each form's fastest schedule is."""
    with workers(default_processes()) as executor:
        explored = explore(task, executor)
        found = search(explored, LimitRequest(frontier=False, budgets=budgets, thorough=True), executor)
        points = replayed(found.drafts, explored, task.replay, executor)
    graphs = [form.network.graph for form in explored.forms]
    table = []
    for budget in budgets:
        best = [min((p.cycles for p in points if p.memory <= budget and p.form.network.graph == g), default=0) for g in graphs]
        least = min(filter(None, best), default=0)
        table.append([f"{budget:,}", *(f"{cycles / least:.3f}" if cycles else "-" for cycles in best), f"{least:,}" if least else "-"])
    return [f"{len(graph.parts)} parts" for graph in graphs], table


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("budgets", nargs="+", type=int, metavar="BYTES")
    parser.add_argument("--accelerator-config", choices=accelerator_names("u55"), default=DEFAULT_ACCELERATOR)
    arguments = parser.parse_args()
    try:
        task = load_task(requested(arguments.model, arguments.accelerator_config))
        names, table = rows(task, tuple(arguments.budgets))
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(tabulate(table, ["bytes", *names, "best"], stralign="right", disable_numparse=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
