# ruff: noqa: INP001  # a script of its own, no package
"""Expected and replayed cycles of schedules, relative to Vela's schedule for the same command line.

    python benchmarks/bench_estimates.py MODEL [MODEL ...] [--accelerator-config NAME ...] [--arena-cache-size SIZE ...] [--keep FILE.jsonl]

A row for each network, device and arena has the expected and the replayed cycles of a schedule, their difference, and the replayed cycles
relative to Vela's. The schedule is the one that estimates alone choose: `schedule` changes it by replays, which see what estimates do not.
The last row has the worst difference and the geometric mean of the ratios. By default the devices are both sizes of the Ethos-U65, in
Dedicated_Sram with 384, 192 and 96 KiB. ``--keep`` appends each row to a file, and does not measure again what the file has.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import prod
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tabulate import tabulate

from cascader.ethosu.search.effort import EFFORTS, by_estimates
from cascader.ethosu.search.request import ModelSource, Run
from cascader.verbs import chosen
from npu_model.accelerator import accelerator_names
from npu_model.errors import InputError
from npu_testbed.asked.ask import OnMemory
from npu_testbed.asked.request import requested
from npu_testbed.compilation.compile_options import Target
from npu_testbed.compilation.peer import vela_peer
from npu_testbed.models.legalise import load_task

KIB = 1 << 10
HEADERS = ("network", "device", "KiB", "expected", "replay", "difference", "of Vela's")


def measured(source: str, device: str, arena: int, options: argparse.Namespace) -> tuple[int, int, int]:
    """Cycles expected and replayed of our schedule, and replayed of Vela's; ``arena`` is in KiB, 0 for any."""
    memory = OnMemory[Any](system_config=options.system_config, memory_mode=options.memory_mode)
    request = requested(source, device, memory, budget=arena * KIB or None, effort=options.effort)
    task = load_task(request)
    point = chosen(replace(task, options=by_estimates(task.options)), request, Run(1)).point
    assert isinstance(request.source, ModelSource)  # noqa: S101  # as only models are asked for
    return point.estimate, point.cycles, vela_peer(request.source, request, Target()).figures.cycles


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    devices = {"choices": accelerator_names(), "default": ("ethos-u65-256", "ethos-u65-512")}
    parser.add_argument("--accelerator-config", nargs="+", **devices)
    parser.add_argument("--system-config", default="Ethos_U65_High_End")
    parser.add_argument("--memory-mode", default="Dedicated_Sram")
    parser.add_argument("--arena-cache-size", nargs="+", type=int, default=(384, 192, 96), metavar="KIB", help="0: any")
    parser.add_argument("--effort", choices=EFFORTS, default="quick")
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl")
    options = parser.parse_args()
    kept = dict(map(json.loads, options.keep.read_text().splitlines())) if options.keep and options.keep.exists() else {}
    cells = [(source, name, size) for source in options.models for name in options.accelerator_config for size in options.arena_cache_size]
    table, errors, ratios = [], [], []
    try:
        for source, device, arena in cells:
            name = f"{Path(source).stem} {device} {options.memory_mode} {arena} {options.effort}"
            if name not in kept:
                kept[name] = measured(source, device, arena, options)
                if options.keep:
                    with options.keep.open("a") as file:
                        file.write(json.dumps([name, kept[name]]) + "\n")
            expected, cycles, vela = kept[name]
            errors.append(expected / cycles - 1)
            ratios.append(cycles / vela)
            numbers = f"{expected:,}", f"{cycles:,}", f"{errors[-1]:+.2%}", f"{ratios[-1]:.3f}"
            table.append((Path(source).stem, device, arena or "any", *numbers))
            sys.stderr.write(f"{' '.join(map(str, table[-1]))}\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    mean = f"{prod(ratios) ** (1 / len(ratios)):.3f}"
    table.append(("worst, and geometric mean", "", "", "", "", f"{max(errors, key=abs):+.2%}", mean))
    sys.stdout.write(tabulate(table, HEADERS, tablefmt="pipe", disable_numparse=True, colalign=("left", "left", *("right",) * 5)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
