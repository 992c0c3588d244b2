# ruff: noqa: INP001  # a script of its own, no package
"""Growth of the search with the operators of a network: chains and residual networks of 12 to 400 operators.

    python benchmarks/bench_growth.py [--operators 12,50,100,200,400] [--kind chain|residual] [--frontier]

A row per network has its parts, CPU seconds of this process, and the most memory that the process had so far. The seconds are those for its
legalised kernels, for its forms and their plans, and for a schedule in the bytes that layer by layer takes. With ``--frontier`` the
schedules are those of all memory limits.
"""

from __future__ import annotations

import argparse
import sys
import time

from tabulate import tabulate

from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.limits import EVERYTHING, LimitRequest
from cascader.ethosu.search.replays import close, replayed
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.frontends.vela import import_network
from cascader.search.workers import workers
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles
from validation.builder import NetworkBuilder

SIDE, CHANNELS = 32, 16


def model(kind: str, operators: int) -> bytes:
    """A chain of pointwise and depthwise convolutions, or residual blocks of those and a sum, of so many operators."""
    net = NetworkBuilder(f"{kind}_{operators}")
    x = net.conv2d(net.input((1, SIDE, SIDE, 3), "image"), CHANNELS, activation="RELU", name="stem")
    made = 1
    while made < operators:
        y = net.conv2d(x, CHANNELS, (1, 1), activation="RELU", name=f"pointwise_{made}")
        made += 1
        if made < operators:
            y = net.depthwise(y, activation="RELU", name=f"depthwise_{made}")
            made += 1
        if kind == "residual" and made < operators:
            y = net.add(x, y, name=f"add_{made}")
            made += 1
        x = y
    return net.finish([x])


def most_memory() -> str:
    """MiB that this process had at most; a dash where the system does not say."""
    try:
        import resource  # noqa: PLC0415  # not on every system
    except ImportError:
        return "-"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == 'darwin' else 1 << 10):.0f}"


def measure(network: Network, *, frontier: bool) -> tuple[float, float, int]:
    """CPU seconds of plans and of the search with its replays, and the cycles of the best schedule."""
    system = profile("u55_high_end").memory_system()
    task = Task(network, DEFAULT_ACCELERATOR, system, Replayer(quick_cycles, system))
    budget = schedule_layer_by_layer(network, DEFAULT_ACCELERATOR).arena_size
    start = time.process_time()
    with workers(1) as executor:
        explored = explore(task, executor)
        planned = time.process_time()
        request = EVERYTHING if frontier else LimitRequest(frontier=False, budgets=(budget,), fastest=True)
        drafts = search(explored, request, executor).drafts
        chosen = drafts if frontier else close([draft for draft in drafts if draft.memory <= budget])
        points = replayed(chosen, explored, task.replay, executor)
    return planned - start, time.process_time() - planned, min(point.cycles for point in points)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", default="12,50,100,200,400")
    parser.add_argument("--kind", choices=("chain", "residual"), action="append")
    parser.add_argument("--frontier", action="store_true")
    options = parser.parse_args()
    table = []
    for kind in options.kind or ("chain", "residual"):
        for count in map(int, options.operators.split(",")):
            start = time.process_time()
            network = import_network(model(kind, count), DEFAULT_ACCELERATOR)
            read = time.process_time() - start
            plans, found, cycles = measure(network, frontier=options.frontier)
            seconds = (f"{value:.1f}" for value in (read, plans, found))
            table.append([kind, count, len(network.graph.parts), *seconds, f"{cycles:,}", most_memory()])
            sys.stderr.write(f"{kind} {count}: {plans + found:.1f} s\n")
    headers = ["kind", "operators", "parts", "read s", "plans s", "search s", "cycles", "MiB"]
    sys.stdout.write(tabulate(table, headers, disable_numparse=True, stralign="right") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
