# ruff: noqa: INP001  # a script of its own, no package
"""Work of a search, counted: the drafts that it tries and the replays that it asks for, with forms of fewer bytes and without.

    python benchmarks/bench_work.py MODEL[:BYTES[,BYTES...]] [...]

A row for each network and budget; the smallest arena where no BYTES are given. The forms are streamed pools, and tiles and skips made
again. The counts are of one process and the same in every run. A network "gains" where the forms save bytes or cycles.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from msgspec import Struct
from msgspec.structs import replace
from tabulate import tabulate

from cascader.draft.trials import Trials
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.search.request import PERFORMANCE, SIZE, Request, Run
from cascader.ethosu.search.task import Task
from cascader.verbs import chosen
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task


class Work(Struct, frozen=True):
    """The answer of a search in bytes and cycles, and the drafts and replays that it took."""

    memory: int
    cycles: int
    drafts: int
    replays: int


@contextmanager
def counted(owner: type, name: str) -> Iterator[Callable[[], int]]:
    """Count the calls of a method meanwhile."""
    calls, method = 0, getattr(owner, name)

    def counting(self: object, *arguments: object) -> Any:
        nonlocal calls
        calls += 1
        return method(self, *arguments)

    with patch.object(owner, name, counting):
        yield lambda: calls


def work(task: Task, request: Request) -> Work:
    """The work of the search for what a request asks for, in one process."""
    with ExitStack() as stack:
        drafts = stack.enter_context(counted(Trials, "cycles"))
        replays = stack.enter_context(counted(Judge, "cycles"))
        point = chosen(task, request, Run(1)).point
        return Work(point.memory, point.cycles, drafts(), replays())


def without_forms(task: Task) -> Task:
    """The task with no form that is there for its bytes."""
    return replace(task, options=replace(task.options, streamed_pools=False, recompute=Fraction(0)))


def _row(source: str, budget: int | None) -> list[str]:
    """The cells of a line."""
    request = requested(source, budget=budget, optimise=SIZE if budget is None else PERFORMANCE)
    task = load_task(request)
    found, plain = work(task, request), work(without_forms(task), request)
    gains = (found.memory, found.cycles) != (plain.memory, plain.cycles)
    cells = [source.rpartition("/")[2], "smallest" if budget is None else f"{budget:,}"]
    cells += [f"{one.memory:,} / {one.cycles:,}" for one in (plain, found)]
    for ours, other in ((found.drafts, plain.drafts), (found.replays, plain.replays)):
        cells.append(f"{other:,} -> {ours:,} ({ours / max(1, other):.3f})")
    return [*cells, "yes" if gains else "no"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:BYTES]")
    table = []
    try:
        for given in parser.parse_args().models:
            source, _, budgets = given.rpartition(":") if given.rpartition(":")[2].replace(",", "").isdigit() else (given, "", "")
            for budget in [int(one) for one in budgets.split(",")] if budgets else [None]:
                table.append(_row(source, budget))
                sys.stderr.write(f"{' '.join(table[-1])}\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    headers = ["network", "bytes", "without the forms", "with them", "drafts", "replays", "gains"]
    sys.stdout.write(tabulate(table, headers, tablefmt="github", disable_numparse=True, stralign="right") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
