# ruff: noqa: INP001  # a script of its own, no package
"""Frontiers recorded and compared, so that a change of the search shows what it did to any network.

    python benchmarks/bench_frontiers.py record BEFORE.json [MODEL.tflite | zoo:NAME ...] [--accelerator-config ethos-u55-128] [--rungs 3]
    python benchmarks/bench_frontiers.py compare BEFORE.json AFTER.json [--tolerance 0.005]

``record`` writes the points (bytes, cycles, digest of the schedule) that a frontier of few memory limits has for each network (all of the
zoo by default), and each network's CPU seconds. ``compare`` prints a line per network: how much worse its worst point has become, how much
better its best one, how many schedules are the same, and both times. A point has become worse by the least factor on bytes and cycles at
once within which the other recording has a point. Exit status 1 if a network is worse by more than the tolerance.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tabulate import tabulate

from cascader.ethosu.search.request import Run
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names
from npu_model.errors import InputError
from npu_testbed.asked.request import requested
from npu_testbed.searches.frontiers import frontier
from validation.zoo import zoo_names

Point = list[Any]
"""Bytes, cycles, digest."""


def record(models: list[str], device: str, rungs: int) -> dict[str, Any]:
    """The points of each network, one network after the other on one processor."""
    found: dict[str, Any] = {}
    for model in models:
        start = time.process_time()
        points = [[point.memory, point.cycles, point.digest] for point in frontier(requested(model, device, rungs=rungs), Run()).points]
        name = model if model.startswith("zoo:") else Path(model).stem
        found[name] = {"points": points, "seconds": round(time.process_time() - start, 1)}
        sys.stderr.write(f"{name}: {len(points)} points, {found[name]['seconds']} s\n")
    return {"accelerator": device, "rungs": rungs, "networks": found}


def distance(point: Point, others: list[Point]) -> float:
    """Least growth of both bytes and cycles of a point within which one of the others lies; negative if one is better in both.

    >>> distance([100, 1000, ""], [[100, 1010, ""], [50, 2000, ""]])
    0.01
    """
    return round(min(max(other[0] / point[0], other[1] / point[1]) for other in others) - 1, 6)


def compare(before: dict[str, Any], after: dict[str, Any], tolerance: float) -> int:
    """Print a line per network; the exit status."""
    if (before["accelerator"], before["rungs"]) != (after["accelerator"], after["rungs"]):
        raise InputError("The two recordings are of different devices or numbers of limits: record both alike.")
    lines, failed = [], False
    for name, old in before["networks"].items():
        new = after["networks"].get(name)
        if new is None:
            raise InputError(f"The second recording has no network {name!r}: record it, too.")
        worst = max(distance(point, new["points"]) for point in old["points"])
        best = max(distance(point, old["points"]) for point in new["points"])
        same = len({point[2] for point in old["points"]} & {point[2] for point in new["points"]})
        counts = f"{same} of {len(old['points'])}, {len(new['points'])}"
        lines.append([name, f"{worst:+.2%}", f"{-best:+.2%}", counts, f"{old['seconds']:.1f}", f"{new['seconds']:.1f}"])
        failed |= worst > tolerance
    sums = [f"{sum(file['networks'][name]['seconds'] for name in before['networks']):.1f}" for file in (before, after)]
    lines.append(["sum", "", "", "", *sums])
    headers = ["network", "worst", "best", "same schedules", "before s", "after s"]
    sys.stdout.write(tabulate(lines, headers, disable_numparse=True, colalign=("left", *("right",) * 5)) + "\n")
    return int(failed)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="record the frontiers of some networks")
    recording.add_argument("file", type=Path, help="the JSON file to write")
    recording.add_argument("models", nargs="*", help=".tflite files, or zoo:NAME (default: all of the zoo)")
    recording.add_argument("--accelerator-config", default=DEFAULT_ACCELERATOR, choices=accelerator_names("u55"), help="the device")
    recording.add_argument("--rungs", type=int, default=3, help="memory limits of each form of a network (default: 3)")
    comparing = verbs.add_parser("compare", help="compare two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--tolerance", type=float, default=0.005, help="how much worse a network may become (default: 0.005)")
    options = parser.parse_args()
    try:
        if options.verb == "compare":
            return compare(json.loads(options.before.read_text()), json.loads(options.after.read_text()), options.tolerance)
        models = options.models or [f"zoo:{name}" for name in zoo_names()]
        options.file.write_text(json.dumps(record(models, options.accelerator_config, options.rungs), indent=1) + "\n")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
