# ruff: noqa: INP001  # a script of its own, no package
"""Speed of planning: the plans of all groups by the compiled core, and by the Python form, both in one run.

    python benchmarks/bench_planning.py [MODEL.tflite | zoo:NAME] [--at-least 3]

A line per variant of the network (zoo:mobilenet_v2 by default) that is searched. "Costs" are the seconds in which the costs of stripes
are counted, each once, as part of the first planning; "Python" is a second planning, which knows them, by the Python form, "compiled" one
by the compiled core. They must be the same plans. Seconds are CPU seconds of this process. Exit status 1 if the plans differ or a ratio of
Python to compiled is below ``--at-least``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from tabulate import tabulate

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.forms import FormTerms, forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.search.task import Task
from cascader.plan.plans import Planner
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Call ``work``: its result and the CPU seconds that it takes."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def measure(network: Network, task: Task) -> tuple[list[object], bool, float]:
    """The columns of a variant, whether the plans are equal, and the ratio."""
    cascader, first = timed(lambda: Cascader(network, task.accelerator, task.system, task.options))
    planner = Planner(cascader.scheduler, cascader.cost, cascader.options.plans)
    ending, plain = timed(planner.all_plans)
    table, compiled = timed(Planner(cascader.scheduler, cascader.cost, cascader.options.plans).table)
    kept = [plan for plans in ending for plan in plans]
    equal, ratio = ending == table.ending, plain / compiled
    seconds = (f"{value:.2f}" for value in (first - compiled, plain, compiled))
    groups = len({plan.group for plan in kept})
    return [len(ending), groups, len(kept), "yes" if equal else "NO", *seconds, f"{ratio:.1f}"], equal, ratio


def report(source: str, device: str, bar: float) -> int:
    """Print a line per variant; the exit status."""
    task = load_task(requested(source, device))
    made = forms(task.network, FormTerms(task.accelerator, task.system, task.options))
    found = [measure(form.network, task) for form in made]
    headers = ["parts", "groups", "plans", "equal", "costs s", "Python s", "compiled s", "ratio"]
    sys.stdout.write(tabulate([columns for columns, _, _ in found], headers, disable_numparse=True, stralign="right") + "\n")
    return int(any(not equal or ratio < bar for _, equal, ratio in found))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:mobilenet_v2", help="a .tflite file, or zoo:NAME (default: zoo:mobilenet_v2)")
    parser.add_argument("--accelerator-config", default=DEFAULT_ACCELERATOR, choices=accelerator_names("u55"), help="the device")
    parser.add_argument("--at-least", type=float, default=0.0, help="the least ratio that is a success (default: any)")
    options = parser.parse_args()
    try:
        return report(options.model, options.accelerator_config, options.at_least)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
