"""A user's script under strict type checkers: what is right passes, and each wrong line is refused by name."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RIGHT = """\
import npu_testbed

made = npu_testbed.schedule("zoo:tiny_conv", arena_cache_size=8192, effort="quick", home=["input=ext"])
made.save("tiny_conv.json")
figures: tuple[int, int] = (made.arena_bytes, made.cycles)
found = npu_testbed.frontier("zoo:tiny_conv", accelerator_config="ethos-u55-64")
smallest: int = min(point.memory for point in found.points)
columns: list[str] = list(found.points.to_dict())
layers: list[str] = [row.layer for row in npu_testbed.simulate_schedule(made).layers]
held = npu_testbed.check("tiny_conv.json", max_cycles=100_000)
verified = npu_testbed.verify("tiny_conv.json")
differing: int = sum(row.differing for row in verified.comparisons)
passed: bool = held.passed and verified.passed
"""

WRONG = {
    'npu_testbed.schedule("zoo:tiny_conv", arena_cach_size=8192)': "arena_cach_size",
    'npu_testbed.schedule("zoo:tiny_conv", effort="fast")': "fast",
    "npu_testbed.schedule(3.5)": "float",
    'npu_testbed.frontier("zoo:tiny_conv").point': "point",
    'npu_testbed.check("tiny_conv.json", max_cycles="many")': "max_cycles|many",
    'npu_testbed.sweep("zoo:tiny_conv", arena_cache_size=[1.5])': "float",
    'text: str = npu_testbed.verify("tiny_conv.json").passed': "bool",
}
"""By a line that is wrong the word that its error must have."""


def written(folder: Path) -> None:
    (folder / "right.py").write_text(RIGHT, encoding="utf-8")
    (folder / "wrong.py").write_text("\n".join(["import npu_testbed", *WRONG, ""]), encoding="utf-8")


def require_named(errors: dict[int, str]) -> None:
    assert sorted(errors) == [number + 2 for number in range(len(WRONG))]
    for (line, word), (_, said) in zip(WRONG.items(), sorted(errors.items()), strict=True):
        assert re.search(word, said), (line, said)


def test_a_strict_mypy_passes_a_right_script_and_names_each_wrong_line(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: `tox -e types` has it")
    written(tmp_path)
    # The oldest Python, as pyproject.toml says of our own: `tox -e types` names a folder where mypy has read our modules for that.
    oldest = ["--python-version", "3.10"]
    command = [sys.executable, "-m", "mypy", "--strict", *oldest, "--config-file", os.devnull, "right.py", "wrong.py"]
    environment = {"MYPY_CACHE_DIR": str(tmp_path / "cache")} | os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    # Where the package is not installed but lies in its folder, mypy speaks of its modules, too.
    own = [line for line in done.stdout.splitlines() if line.startswith(("right.py", "wrong.py"))]
    assert [line for line in own if line.startswith("right.py")] == [], done.stdout
    found = re.findall(r"^wrong\.py:(\d+): error: (.*)$", "\n".join(own), flags=re.MULTILINE)
    require_named({int(number): said for number, said in found})


def test_a_strict_pyright_passes_a_right_script_and_names_each_wrong_line(tmp_path: Path) -> None:
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed")
    written(tmp_path)
    msgspec = importlib.util.find_spec("msgspec")
    assert msgspec is not None
    assert msgspec.origin is not None
    paths = [str(ROOT), str(Path(msgspec.origin).parents[1])]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": paths, "strict": ["right.py"]}), encoding="utf-8")
    done = subprocess.run(["pyright", "--outputjson"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    found = [one for one in json.loads(done.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    assert [one["message"] for one in found if one["file"].endswith("right.py")] == []
    require_named({one["range"]["start"]["line"] + 1: one["message"] for one in found})
