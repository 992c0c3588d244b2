# ruff: noqa: INP001  # a script of its own, no package
"""Speed of a replay: seconds and OFM blocks per second, beside a bare SimPy loop in the same run.

    python benchmarks/bench_replay.py [MODEL.tflite | zoo:NAME] [--timing-adapter u55_high_end]

The model (zoo:mobilenet_v2 by default) is compiled with Vela for all four MAC configurations. "First" replays a network for the first
time, "again" with its block jobs in the cache. The last column is what a block costs in events of a SimPy loop that does nothing
else: it depends little on the machine, so that figures of two machines can be compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import simpy
from tabulate import tabulate

from cascader.frontends.vela.compiler import CompilerOptions, compile_network
from npu_model.accelerator import accelerator_names
from npu_model.compiled.network import read_compiled
from npu_model.cost.block_jobs import block_jobs
from npu_model.cost.traversal import ofm_blocks
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.program import Program
from npu_testbed.models.sources import load_model
from sim import replay

BARE_EVENTS = 300_000


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call: other processes on the machine do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bare_simpy() -> None:
    """A process that waits one cycle at a time."""
    env = simpy.Environment()

    def tick() -> Generator[simpy.Event, Any, None]:
        for _ in range(BARE_EVENTS):
            yield env.timeout(1)

    env.process(tick())
    env.run()


def measure(programs: tuple[Program, ...], adapter: str, event_seconds: float) -> list[object]:
    """Cycles, blocks, seconds (first, again), blocks per second and events per block."""
    system = profile(adapter).memory_system()
    blocks = sum(1 for program in programs for op in program.kernels for _ in ofm_blocks(op))
    cycles = sum(replay(program, system).cycles for program in programs)
    again = seconds(lambda: [replay(program, system) for program in programs])
    block_jobs.cache_clear()
    first = seconds(lambda: [replay(program, system) for program in programs])
    return [cycles, blocks, f"{first:.2f}", f"{again:.2f}", f"{blocks / first:.0f}", f"{first / blocks / event_seconds:.0f}"]


def main() -> int:
    """Print one line per MAC configuration and way to optimise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:mobilenet_v2", help="a .tflite file, or zoo:NAME (default: zoo:mobilenet_v2)")
    parser.add_argument("--timing-adapter", default="u55_high_end", help="built-in timing-adapter profile (default: u55_high_end)")
    options = parser.parse_args()
    try:
        model = load_model(options.model).data
        event_seconds = min(seconds(bare_simpy) for _ in range(3)) / BARE_EVENTS
        rows = []
        for accelerator in accelerator_names("u55"):
            for optimise in ("Performance", "Size"):
                compiled = compile_network(model, CompilerOptions(accelerator, optimise=optimise, debug_database=False)).compiled
                programs = read_compiled(compiled).programs
                rows.append([accelerator, optimise, *measure(programs, options.timing_adapter, event_seconds)])
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    headers = ["accelerator", "optimise", "cycles", "blocks", "first s", "again s", "blocks/s", "SimPy events/block"]
    sys.stdout.write(f"{options.model}, timing adapter {options.timing_adapter}; bare SimPy: {1 / event_seconds:,.0f} events/s\n")
    sys.stdout.write(tabulate(rows, headers, disable_numparse=True, stralign="right") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
