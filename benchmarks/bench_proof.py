# ruff: noqa: INP001  # a script of its own, no package
"""Proofs of small networks: at no budget, in the middle and in the smallest arena, what each proves, finds and takes.

``python benchmarks/bench_proof.py zoo:tiny_conv portfolio:widened`` prints a line for each network and budget: cycles of the thorough
search without and with the proof, gap to what the class takes at least, replays, steps, and the proof's CPU seconds.
"""

from __future__ import annotations

import sys
import time

from cascader.ethosu.proof.result import Limits
from cascader.ethosu.search.choice import Aim, choose
from cascader.ethosu.search.task import Choice, Task
from cascader.search.workers import workers
from testbed.legalise import load_task
from testbed.memory_options import MemoryOptions

NOTHING = Limits(steps=0, replays=0)
"""Limits at which a proof looks ahead and ends."""


def timed(task: Task, aim: Aim, limits: Limits) -> tuple[Choice, float]:
    """A choice, and its CPU seconds."""
    begin = time.process_time()
    with workers(1) as executor:
        made = choose(task, aim, executor, limits=limits)
    return made, time.process_time() - begin


def budgets(task: Task) -> tuple[int | None, int, int]:
    """None, the arena between the smallest and that of the fastest schedule, and the smallest."""
    fastest, smallest = (timed(task, Aim(smallest=smallest), NOTHING)[0].point for smallest in (False, True))
    return None, (smallest.memory + fastest.memory) // 2 // 16 * 16, smallest.memory


def say(line: str) -> None:
    """Print a line of the table at once."""
    print(line, flush=True)  # noqa: T201  # what the script is for


def main(names: list[str]) -> None:
    """Print the table."""
    say("network;budget;search;proven;gap;complete;schedules;replays;steps;seconds")
    for name in names:
        task = load_task(name, "ethos-u55-128", MemoryOptions())
        for budget in budgets(task):
            without, before = timed(task, Aim(budget, thorough=True), NOTHING)
            made, after = timed(task, Aim(budget, thorough=True), Limits())
            proof = made.proof
            if proof is not None:
                gap = f"{made.point.cycles / proof.least_cycles - 1:.1%}"
                counts = f"{proof.complete};{proof.members};{proof.replayed};{proof.steps}"
                say(f"{name};{budget};{without.point.cycles};{made.point.cycles};{gap};{counts};{after - before:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
