"""Schedule files of every kind, for tests that damage them: homes, spills, operators on the CPU, states, and what was edited in them."""

from __future__ import annotations

import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from command_line import call
from cpu_networks import cpu_split_network
from damage import DECISIONS, edit, places

from cascader.ethosu.schedule.file import schedule_of, to_json
from npu_model.errors import InputError

_PLANS: tuple[tuple[object, ...], ...] = (
    ("zoo:tiny_residual", "--home", "input=ext", "--home", "output=ext", "--effort", "quick"),
    ("zoo:tiny_residual", "--spill", "ext", "--effort", "quick", "--optimise", "Size"),
    ("zoo:tiny_conv", "--effort", "quick", "--optimise", "Size"),
    ("portfolio:stream_wake_word", "--no-cascade"),
)


def _written(*words: object) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.json"
        made = call("schedule", *words, "--no-advice", "-o", path)
        assert made.status == 0, made.errors
        found: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))["schedule"]
        return found


@cache
def plan_documents() -> tuple[dict[str, Any], ...]:
    """The schedules of some files: both ends outside the arena, spills, few bytes, a state, and an operator on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        split = Path(folder) / "split.tflite"
        split.write_bytes(cpu_split_network())
        return (*(_written(*words) for words in _PLANS), _written(split, "--no-cascade"))


def edited_plan(rng: random.Random, *, decisions: bool) -> bytes:
    """A schedule file with one edit, of its ``decisions`` or of anything; its digest fits where there is a schedule to digest."""
    document = rng.choice(plan_documents())
    paths = [path for path in places(document) if path and (not decisions or path[0] in DECISIONS)]
    changed = edit(rng, document, rng.choice(paths))
    try:
        return to_json(schedule_of(changed)).encode("ascii")
    except InputError:
        return json.dumps({"schema": 6, "digest": "0" * 64, "schedule": changed}).encode("ascii")
