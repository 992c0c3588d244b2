"""Two runs give the same bytes, whatever the hash seed and the number of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = (("0", "1"), ("1", "2"))
"""Hash seeds, and processes that share the search."""


def files(folder: Path, model: str, seed: str, jobs: str) -> dict[str, bytes]:
    """Every file of ``schedule`` and ``frontier``, written in processes of their own."""
    folder.mkdir()
    frontier = ("frontier", model, "--jobs", jobs, "-o", "frontier.json", "--plot", "frontier.svg", "--schedules", "points")
    for command in (("schedule", model, "--jobs", jobs, "-o", "schedule.json"), frontier):
        subprocess.run(
            [sys.executable, "-m", "npu_testbed", *command],
            cwd=folder,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "model",
    [
        "zoo:tiny_residual",
        pytest.param(
            "zoo:ds_cnn",
            marks=pytest.mark.skipif("NPU_TESTBED_ALL" not in os.environ, reason="takes about a minute: set NPU_TESTBED_ALL to run it"),
        ),
    ],
)
def test_a_schedule_and_a_frontier_are_the_same_bytes_whatever_the_hash_seed_and_the_processes(model: str, tmp_path: Path) -> None:
    first, second = (files(tmp_path / seed, model, seed, jobs) for seed, jobs in RUNS)
    assert {"schedule.json", "frontier.json", "frontier.svg"} < set(first)
    assert any(name.startswith("points/") for name in first)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
