# ruff: noqa: INP001  # a script of its own, no package
"""Proofs of small networks: at no budget, in the middle and in the smallest arena, what each proves, finds and takes.

``python benchmarks/bench_proof.py zoo:tiny_conv portfolio:widened`` prints a line for each network and budget: cycles of the thorough
search without and with the proof, gap to what the class takes at least, schedules of the class, replays, steps, and the proof's CPU
seconds. ``--every 4`` takes each fourth of all networks of the zoo and the portfolio of which a form has at most ten parts. A table of all
lines by budget comes last.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from statistics import median

from cascader.ethosu.proof.prover import prove_form
from cascader.ethosu.search.choice import Aim, choose
from cascader.ethosu.search.proven import MOST_PARTS
from cascader.ethosu.search.task import Choice, Task
from cascader.search.workers import workers
from npu_testbed.legalise import load_task
from npu_testbed.memory_options import MemoryOptions
from validation.portfolio import NETWORKS as PORTFOLIO
from validation.zoo import zoo_names

BUDGETS = ("none", "in the middle", "the smallest arena")


@dataclass(slots=True)
class Run:
    """A choice with what it was before its proof, which began at a CPU second."""

    begin: float = 0
    before: int = 0
    seen: list[int] = field(default_factory=list)

    def show(self, doing: str) -> None:
        """Listen for the beginning of the proof, that of its first round."""
        if doing.startswith("Searching everything: 0") and not self.before:
            self.begin, self.before = time.process_time(), self.seen[-1]

    def choose(self, task: Task, aim: Aim) -> tuple[Choice, float]:
        """A choice, and the CPU seconds of its proof."""
        with workers(1) as executor:
            made = choose(task, aim, executor, self.show, lambda choice: self.seen.append(choice.point.cycles))
        return made, time.process_time() - self.begin


def small_networks(every: int) -> list[str]:
    """Each so manieth network of which some form has at most ten parts."""
    names = [*(f"zoo:{name}" for name in zoo_names()), *(f"portfolio:{network.name}" for network in PORTFOLIO)]
    return [name for name in names[::every] if min(len(form.network.graph.parts) for form in task_of(name).variants()) <= MOST_PARTS]


def task_of(name: str) -> Task:
    """The task of a network on 128 MACs."""
    return load_task(name, "ethos-u55-128", MemoryOptions())


def budgets(task: Task) -> tuple[int | None, int, int]:
    """None, the arena between the smallest and that of the fastest schedule, and the smallest."""
    with workers(1) as executor:
        fastest, smallest = (choose(task, Aim(smallest=smallest), executor).point for smallest in (False, True))
    return None, (smallest.memory + fastest.memory) // 2 // 16 * 16, smallest.memory


def say(line: str) -> None:
    """Print a line of the table at once."""
    print(line, flush=True)  # noqa: T201  # what the script is for


Row = tuple[int, float, bool, float]
"""Cycles saved by the proof in a thousand, the gap, whether it is complete, and CPU seconds."""


def summary(kind: str, rows: list[Row]) -> str:
    """A line of the table by budget."""
    faster = [row[0] for row in rows if row[0]]
    gaps = [f"{row[1]:.1%}" for row in sorted(rows, key=lambda row: -row[1]) if not row[2]]
    seconds = [row[3] for row in rows]
    saved = f"{median(faster) / 10:.1f} %, {max(faster) / 10:.1f} %" if faster else "-"
    complete = sum(row[2] for row in rows)
    return (
        f"| {kind} | {len(rows)} | {complete} | {len(faster)} | {saved} | {median(seconds):.1f}, {max(seconds):.1f} | {', '.join(gaps)} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Proofs of small networks.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=0)
    asked = parser.parse_args()
    found: dict[str, list[Row]] = {kind: [] for kind in BUDGETS}
    say("network;budget;search;proven;gap;complete;schedules;replays;steps;seconds")
    for name in (*asked.names, *(small_networks(asked.every) if asked.every else ())):
        task = task_of(name)
        for kind, budget in zip(BUDGETS, budgets(task), strict=True):
            run = Run()
            made, seconds = run.choose(task, Aim(budget, thorough=True, prover=prove_form))
            proof = made.proof
            if proof is None:
                continue
            gap = made.point.cycles / proof.least_cycles - 1
            counts = f"{proof.complete};{proof.members};{proof.replayed};{proof.steps}"
            say(f"{name};{budget};{run.before};{made.point.cycles};{gap:.1%};{counts};{seconds:.2f}")
            found[kind].append((round(1000 * (1 - made.point.cycles / run.before)), gap, proof.complete, seconds))
    say("| budget | cases | gap 0 | faster than the search | by (median, most) | CPU seconds (median, most) | gaps of the others |")
    say("| --- | --: | --: | --: | --: | --: | --- |")
    for kind in BUDGETS:
        if found[kind]:
            say(summary(kind, found[kind]))


if __name__ == "__main__":
    main()
