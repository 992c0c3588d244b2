"""Calls in tests and benchmarks that the packages no longer take: ``python tests/old_calls.py FOLDER``, as ``tox -e types`` does.

mypy reads a flat copy of the files, as they import each other by name alone. Of its errors those count that a run would meet: an argument
that a function does not have or misses, and a module or a name of ours that is gone. The status is 1 if there are any.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("npu_model", "cascader", "sim", "validation", "npu_testbed")
GONE = re.compile(
    r"\[call-arg\]$"
    r"|error: Module (?:\".*\" )?has no attribute \".*\"(?:; maybe .*)? +\[attr-defined\]$"
    rf"|named \"(?:{'|'.join(PACKAGES)})\b.*\" +\[import-not-found\]$"
)


def copied(folder: Path) -> list[Path]:
    """The files side by side in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [path for place in ("tests", "benchmarks") for path in sorted((ROOT / place).rglob("*.py")) if path.name != "conftest.py"]
    assert len({path.name for path in files}) == len(files), "two files of one name"
    return [Path(shutil.copy(path, folder)) for path in files]


def main(folder: str) -> int:
    """Print the errors that count; mypy must have read all files."""
    files = copied(Path(folder))
    done = subprocess.run([sys.executable, "-m", "mypy", *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    assert f"checked {len(files)} source files" in lines[-1] or "no issues found" in lines[-1], lines[-1]
    found = [line for line in lines if GONE.search(line)]
    sys.stdout.write("".join(f"{line}\n" for line in found) + f"{len(found)} old calls in {len(files)} files\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
