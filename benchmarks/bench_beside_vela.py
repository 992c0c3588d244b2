# ruff: noqa: INP001  # a script of its own, no package
"""Time of a compilation beside Vela's of the same network: both commands in turn, by the clock and in CPU seconds.

    python benchmarks/bench_beside_vela.py MODEL [MODEL ...] [--optimise Size] [--runs 3] [--effort quick] [--jobs N]

A row a network: the medians of `vela MODEL` and of `npu-testbed compile MODEL` with all of their processes, and their ratios. Both get
``--optimise``. ``without Vela's`` leaves the CPU seconds of the runs of Vela out that a compilation needs itself: as a legaliser, as what
it is held to, and the other core; a run before keeps what Vela wrote (`benchmarks/kept_vela.py`). The last row has the geometric means of
the ratios.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from math import prod
from pathlib import Path
from statistics import median

from bench_commands import OURS, ROOT, VELA, seconds
from tabulate import tabulate

from npu_model.errors import InputError
from npu_testbed.models.sources import load_model

DEVICE = ("--accelerator-config", "ethos-u55-128")
HEADERS = ("network", "Vela s", "ours s", "ratio", "Vela CPU s", "ours CPU s", "ratio", "without Vela's", "ratio")


def measured(source: str, options: argparse.Namespace) -> list[float]:
    """Clock and CPU seconds of Vela's, of ours, and CPU seconds of ours without Vela's runs."""
    aim = ("--optimise", options.optimise)
    words = ("compile", "model.tflite", *DEVICE, *aim, "--effort", options.effort, *(("--jobs", str(options.jobs)) if options.jobs else ()))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        Path(folder, "model.tflite").write_bytes(load_model(source).data)
        Path(folder, "kept").mkdir()
        kept = (sys.executable, str(ROOT / "benchmarks" / "kept_vela.py"), "kept", *words, "--output-dir", "kept_out")
        seconds(kept, folder)
        taken = []
        for _ in range(options.runs):
            vela = seconds((*VELA, "model.tflite", *aim, "--output-dir", "vela"), folder)
            taken.append((*vela, *seconds((*OURS, *words, "--output-dir", "ours"), folder), seconds(kept, folder)[1]))
    return [median(column) for column in zip(*taken, strict=True)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--optimise", choices=("Performance", "Size"), default="Performance")
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    table, ratios = [], []
    try:
        for source in options.models:
            clock, cpu, ours, ours_cpu, alone = measured(source, options)
            ratios.append((ours / clock, ours_cpu / cpu, alone / cpu))
            by = [f"{ratio:.1f}" for ratio in ratios[-1]]
            row = [Path(source).stem, f"{clock:.2f}", f"{ours:.2f}", by[0], f"{cpu:.2f}", f"{ours_cpu:.2f}", by[1], f"{alone:.2f}", by[2]]
            table.append(row)
            sys.stderr.write(f"{' '.join(row)}\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    means = [f"{prod(column) ** (1 / len(column)):.1f}" for column in zip(*ratios, strict=True)]
    table.append(["geometric mean", "", "", means[0], "", "", means[1], "", means[2]])
    sys.stdout.write(tabulate(table, HEADERS, tablefmt="pipe", disable_numparse=True, colalign=("left", *("right",) * 8)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
