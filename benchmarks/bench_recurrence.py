# ruff: noqa: INP001  # a script of its own, no package
"""Speed of the fast recurrence beside the engine's, on the schedules of a search, both in one run.

    python benchmarks/bench_recurrence.py [MODEL.tflite | zoo:NAME] [--rungs 3] [--at-least 8]

The model (zoo:resnet8 by default) is compiled by Vela in its two ways and scheduled by us at some memory limits. Every schedule is
replayed by the engine and by the recurrence, which must give the same cycles. "First" is the first replay of each schedule, one after the
other as a search does it. Each finds in the caches what earlier replays left. "Again" is a second replay. Both know the work of the weight
decoder from the start, because it is worked out once for all schedules of a network. Seconds are CPU seconds of this process: other
processes disturb them less than they disturb the clock, and a ratio less again. Exit status 1 if the cycles differ or a ratio of the totals
is below ``--at-least``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tabulate import tabulate

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.frontends.vela.compiler import CompilerOptions, compile_network
from cascader.search.workers import workers
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, accelerator_names
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.cost.block_jobs import block_jobs
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.weight_stream.work import stream_work
from npu_testbed.asked.request import requested
from npu_testbed.models.legalise import load_task
from npu_testbed.models.sources import load_model
from sim import quick_replay, replay
from sim.fast.compiled import compiled_cache

Schedules = dict[str, CompiledNetwork]
Cycles = Callable[[CompiledNetwork], int]


def schedules(source: str, device: str, rungs: int) -> tuple[Schedules, MemorySystem]:
    """Vela's two schedules and ours, with the memory system."""
    data = load_model(source).data
    found = {
        f"Vela {optimise}": read_compiled(compile_network(data, CompilerOptions(device, optimise=optimise, debug_database=False)).compiled)
        for optimise in ("Size", "Performance")
    }
    task = load_task(requested(source, device, rungs=max(1, rungs)))
    if not rungs:
        return found, task.system
    with workers(1) as executor:
        made = search(explore(task, executor), EVERYTHING, executor)
    for draft in sorted(made.drafts, key=lambda one: (one.memory, one.cycles)):
        found.setdefault(f"ours, {draft.memory:,} bytes", lower(made.explored.form_of(draft).schedule(draft)))
    return found, task.system


def decode(made: Schedules) -> None:
    """Have the weight streams of all schedules decoded."""
    for network in made.values():
        for program in network.programs:
            stream_work(program, accelerator(program.accelerator))


def measure(made: Schedules, cycles: Cycles) -> list[tuple[int, float, float]]:
    """Cycles and the seconds of the first and a second replay of each schedule, from empty caches."""
    block_jobs.cache_clear()
    compiled_cache.cache_clear()
    found = []
    for network in made.values():
        start = time.process_time()
        count = cycles(network)
        middle = time.process_time()
        cycles(network)
        found.append((count, middle - start, time.process_time() - middle))
    return found


def report(made: Schedules, system: MemorySystem, bar: float) -> int:
    """Print a line per schedule and the totals; the exit status."""
    decode(made)
    slow = measure(made, lambda network: sum(replay(one, system).cycles for one in network.programs))
    fast = measure(made, lambda network: sum(quick_replay(one, system).cycles for one in network.programs))
    rows = []
    for (name, network), (cycles, *engine), (count, *quick) in zip(made.items(), slow, fast, strict=True):
        kernels = sum(len(one.kernels) for one in network.programs)
        ratios = [f"{a / b:.1f}" for a, b in zip(engine, quick, strict=True)]
        same = "yes" if cycles == count else "NO"
        rows.append([name, kernels, f"{cycles:,}", same, *(f"{value:.3f}" for value in engine + quick), *ratios])
    totals = [sum(column) for column in zip(*(a[1:] + b[1:] for a, b in zip(slow, fast, strict=True)), strict=True)]
    ratios = totals[0] / totals[2], totals[1] / totals[3]
    rows.append(["all", "", "", "", *(f"{value:.3f}" for value in totals), *(f"{ratio:.1f}" for ratio in ratios)])
    headers = [
        "schedule",
        "kernels",
        "cycles",
        "equal",
        "engine first s",
        "again s",
        "recurrence first s",
        "again s",
        "ratio first",
        "again",
    ]
    sys.stdout.write(tabulate(rows, headers, disable_numparse=True, stralign="right") + "\n")
    return int(min(ratios) < bar or any(a[0] != b[0] for a, b in zip(slow, fast, strict=True)))


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:resnet8", help="a .tflite file, or zoo:NAME (default: zoo:resnet8)")
    parser.add_argument("--accelerator-config", default=DEFAULT_ACCELERATOR, choices=accelerator_names("u55"), help="the device")
    parser.add_argument(
        "--rungs", type=int, default=3, help="memory limits per layout at which we schedule (default: 3; 0: Vela's schedules alone)"
    )
    parser.add_argument("--at-least", type=float, default=0.0, help="the least ratio of the totals that is a success (default: any)")
    options = parser.parse_args()
    try:
        made, system = schedules(options.model, options.accelerator_config, options.rungs)
        sys.stdout.write(f"{options.model} on {options.accelerator_config}, {system.name}\n")
        return report(made, system, options.at_least)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
