"""The Ethos-U65 beside the published counters of Arm's FVP: beats are exact, cycles within 6 %, adapters on and off."""

from __future__ import annotations

import csv
import json
from functools import cache
from typing import Any

import pytest
from command_line import call
from reference_data import shared_data
from small_programs import feature_map

from npu_model.cost.traffic import write_runs
from npu_model.cost.traversal import Box
from npu_model.program import Layout
from npu_model.shapes import Shape3D

POINTS = tuple(f"u65-{macs}-taon-{name}" for macs in (256, 512) for name in ("rnnoise", "kws", "yolo"))
OFF = tuple(f"u65-{macs}-taoff-{name}" for macs in (256, 512) for name in ("rnnoise", "kws", "yolo-fastest"))


@cache
def rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in ("u65_calibration.csv", "u65_off.csv"):
        with (shared_data() / "fvp" / name).open(encoding="utf-8", newline="") as file:
            found |= {row["id"]: row for row in csv.DictReader(file)}
    return found


@cache
def replayed(point: str) -> dict[str, Any]:
    path, adapter = shared_data() / "fvp" / rows()[point]["stream"], "u65_high_end" if point in POINTS else "off"
    document: dict[str, Any] = json.loads(call("simulate", "vela", path, "--timing-adapter", adapter, "--no-advice", "--json").output)
    return document["summary"]  # type: ignore[no-any-return]  # an object


@pytest.mark.parametrize("point", POINTS)
def test_its_beats_are_those_of_the_fvp(point: str) -> None:
    beats, row = replayed(point)["beats"], rows()[point]
    found = beats["axi0_read"], beats["axi0_write"], beats["axi1_read"]
    assert found == tuple(int(row[name]) for name in ("axi0_rd_beats", "axi0_wr_beats", "axi1_rd_beats"))


@pytest.mark.parametrize("points", [POINTS, OFF])
def test_its_cycles_are_within_two_per_cent_on_average_and_five_at_worst(points: tuple[str, ...]) -> None:
    errors = [abs(replayed(point)["cycles"] / int(rows()[point]["npu_active_cycles"]) - 1) for point in points]
    assert sum(errors) / len(errors) < 0.02
    assert max(errors) < 0.05


def test_two_cores_write_32_channels_of_a_pixel_in_one_run() -> None:
    """42 channels from the middle of a word of 16 bytes: three runs of two words each for one core, and runs of 3 and 2 words for two."""
    mapped = feature_map(Shape3D(1, 1, 42), base=8, layout=Layout.NHWC)
    assert write_runs(mapped, Box(0, 1, 0, 1, 0, 42), 16) == (2, 2, 2)
    assert write_runs(mapped, Box(0, 1, 0, 1, 0, 42), 16, cores=2) == (3, 2)
