"""A network scheduled from Python, with a replay of one's own as the judge of what is found.

The cascader knows no simulator: it is handed a function from a lowered network and its memories to cycles. Here that is the project's
replay, which counts how often it is asked; it may as well be a measurement on a board.

python -m examples.own_replay
"""

from __future__ import annotations

import argparse
import sys

from cascader import ModelSource, Request, frontier, schedule
from examples import ended
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.timing import TimingParameters
from npu_testbed.models.sources import load_model
from sim import quick_cycles

DEVICE = "ethos-u55-128"


def main() -> None:
    """Print one schedule and the frontier, and what they were judged by."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="zoo:tiny_residual", help="a .tflite or zoo:NAME (default: zoo:tiny_residual)")
    parser.add_argument("budget", metavar="bytes", nargs="?", type=int, default=8192, help="most bytes of the arena (default: 8192)")
    given = parser.parse_args()
    source, budget = given.model, given.budget
    memory, asked = profile("u55_high_end").memory_system(), 0

    def replay(network: CompiledNetwork, system: MemorySystem, timing: TimingParameters) -> int:
        nonlocal asked
        asked += 1
        return quick_cycles(network, system, timing)

    request = Request(ModelSource(source, load_model(source).data), DEVICE, memory, budget=budget)
    found = schedule(request, replay)
    point, least = found.point, found.least_cycles
    sys.stdout.write(f"{source} in {budget:,} bytes: {point.cycles:,} cycles in {point.memory:,} bytes; none needs fewer than {least:,}\n")
    for one in frontier(request, replay).points:
        sys.stdout.write(f"{one.memory:>12,} bytes {one.cycles:>12,} cycles\n")
    sys.stdout.write(f"{asked} schedules were replayed\n")


if __name__ == "__main__":
    sys.exit(ended(main))
