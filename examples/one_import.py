"""The one import: schedule, look at plans and buffers, change one memory, replay, plot. ``python -m examples.one_import [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

import npu_testbed
from examples import ended


def main(folder: Path) -> None:
    """Print what the verbs find of one network, and write its pictures."""
    made = npu_testbed.schedule("zoo:ds_cnn", arena_cache_size=16384)
    print(f"{made.arena_bytes:,} bytes, {made.cycles:,} cycles")

    # Jobs in their order: a part whole, or some of its rows. Two parts that take turns are a cascade.
    for job in made.schedule.jobs[1:6]:
        print(f"  {job.part}: {'all rows' if job.rows is None else f'rows {job.rows[0]} to {job.rows[1] - 1}'}")
    for buffer in [one for one in made.schedule.buffers if one.rows is not None][:2]:
        print(f"  {buffer.tensors[0]}: {buffer.rows} rows at a time, {buffer.size:,} bytes at {buffer.address:,}")

    # One memory changed, the same schedule replayed.
    for latency in (64, 256):
        replayed = npu_testbed.simulate_schedule(made, set={"ext.read_latency": latency}, no_advice=True)
        slowest = max(replayed.layers, key=lambda layer: layer.cycles)
        print(f"flash latency {latency}: {replayed.cycles:,} cycles; {slowest.layer} takes {slowest.cycles:,}, bound by {slowest.binding}")

    # The whole frontier, as values and as a picture; in a notebook the outcome itself is shown.
    found = npu_testbed.frontier("zoo:ds_cnn", rungs=6)
    for point in found.points[:3]:
        print(f"  {point.memory:,} bytes: {point.cycles:,} cycles, {point.groups} groups")
    found.plot(folder / "ds_cnn.svg")

    try:
        npu_testbed.schedule("zoo:ds_cnn", arena_cache_size=1024)
    except npu_testbed.Error as error:
        print(error)


if __name__ == "__main__":
    sys.exit(ended(lambda: main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))))
