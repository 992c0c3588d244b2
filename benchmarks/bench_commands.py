# ruff: noqa: INP001  # a script of its own, no package
"""Time of whole commands, beside Vela's compilation of the same network, all in one run.

    python benchmarks/bench_commands.py MODEL[:BYTES] [MODEL[:BYTES] ...] [--runs 3] [--long] [--jobs 2]

MODEL is a path or zoo:NAME, BYTES the budget of its schedule (default: none). A row per command: the median of the seconds by the clock,
the median of the CPU seconds of all of its processes, and the ratio of the clock's seconds to Vela's. ``--long`` adds a frontier, a
comparison and a verification of each network. The comparison runs a second time with Vela's files of the first run, so that Vela compiles
nothing. Vela's share of its CPU seconds is printed too. The last line is the load of the machine: on a busy one CPU seconds say more than
the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tabulate import tabulate

from npu_model.errors import InputError
from npu_testbed.models.sources import load_model

ROOT = Path(__file__).parents[1]
OURS = (sys.executable, "-m", "npu_testbed")
COMPARE, WITHOUT_VELA = "compare", "compare, without Vela's"
VELA = (sys.executable, "-m", "ethosu.vela", "--accelerator-config", "ethos-u55-128")


def seconds(words: tuple[str, ...], folder: str) -> tuple[float, float]:
    """Seconds by the clock and of CPU of a command with its children; InputError if it fails."""
    clock, before = time.perf_counter(), os.times()
    # Where Python may not keep what it has compiled it compiles all modules in every run, which no user's installation does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  # our own commands
    after = os.times()
    if done.returncode:
        raise InputError(f"{' '.join(words)} ended with status {done.returncode}: {done.stderr[-300:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - clock, cpu


def commands(source: str, budget: str, jobs: str, *, long: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The commands of one network by their names; each finds what the ones before it have written."""
    bound = ("--arena-cache-size", budget) if budget else ()
    many = ("--jobs", jobs)
    yield "schedule --effort quick", (*OURS, "schedule", source, *bound, "--effort", "quick", "--no-advice", *many, "-o", "q.json")
    yield "schedule", (*OURS, "schedule", source, *bound, "--no-advice", *many, "-o", "s.json")
    yield "simulate schedule", (*OURS, "simulate", "schedule", "s.json", "--no-advice")
    if long:
        yield "verify", (*OURS, "verify", "s.json", "--model", source)
        yield "frontier", (*OURS, "frontier", source, *many, "-o", "f.json")
        yield COMPARE, (*OURS, "compare", source, "--no-advice", *many)
        kept = (sys.executable, str(ROOT / "benchmarks" / "kept_vela.py"), "kept")
        yield WITHOUT_VELA, (*kept, "compare", source, "--no-advice", *many)


def rows(source: str, budget: str, options: argparse.Namespace) -> Iterator[list[str]]:
    """A row per command of a network, Vela's compilation first."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder, "model.tflite")
        path.write_bytes(load_model(source).data)
        given = source if source.startswith(("zoo:", "portfolio:")) else str(Path(source).resolve())
        listed = [("vela", (*VELA, "model.tflite", "--output-dir", "vela"))]
        listed += commands(given, budget, str(options.jobs), long=options.long)
        base, known = 0.0, dict[str, float]()
        for name, words in listed:
            if name == WITHOUT_VELA:
                Path(folder, "kept").mkdir()
                seconds(words, folder)
            taken = [seconds(words, folder) for _ in range(options.runs)]
            clock, known[name] = (median(column) for column in zip(*taken, strict=True))
            base = base or clock
            yield [Path(source).name, name, f"{clock:.2f}", f"{known[name]:.2f}", f"{clock / base:.1f}"]
        if WITHOUT_VELA in known:
            share = known[COMPARE] - known[WITHOUT_VELA]
            yield [Path(source).name, "Vela's share of compare", "", f"{share:.2f}", f"{share / known[COMPARE]:.0%} of CPU s"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[:BYTES]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command (default: 3)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of each of our commands (default: 2)")
    parser.add_argument("--long", action="store_true", help="frontier, compare and verify, too")
    options = parser.parse_args()
    table: list[list[str]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            taken = [seconds((*OURS, "--help"), folder) for _ in range(options.runs)]
        table.append(["", "--help", *(f"{median(column):.2f}" for column in zip(*taken, strict=True)), ""])
        for model in options.models:
            source, _, budget = model.rpartition(":") if model.rpartition(":")[2].isdigit() else (model, "", "")
            table += rows(source, budget, options)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(tabulate(table, ["network", "command", "clock s", "CPU s", "/ vela"], disable_numparse=True) + "\n")
    if hasattr(os, "getloadavg"):
        sys.stdout.write(f"{os.cpu_count()} processors; load of the last minutes: {', '.join(f'{load:.1f}' for load in os.getloadavg())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
