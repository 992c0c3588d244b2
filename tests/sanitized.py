"""The compiled cores under the compiler's sanitisers, in a copy of the checkout: their tests, damaged streams, and changed calls.

``tox -e sanitize``, or ``python tests/sanitized.py CHECKOUT FOLDER [--cases N] [--calls N] [TEST ...]``. The first
access to a byte that is not theirs, and the first arithmetic that C leaves undefined, ends the run with a report.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = (
    "tests/cascader/test_native_core.py",
    "tests/cascader/test_core_arguments.py",
    "tests/cascader/ethosu/cost/test_native_cost.py",
    "tests/cascader/ethosu/judge",
    "tests/npu_model/cost",
    "tests/npu_model/weight_stream",
    "tests/sim/fast",
)
"""Tests of the four cores beside their Python forms."""

ALONE = "import os, sys; del os.environ['LD_PRELOAD'];"
"""Programs that are started from here, such as Vela, have bounds of its address space, in which a sanitiser finds no room."""

DAMAGED = f"{ALONE} import damage; print([damage.outcome(damage.damaged_stream, seed) for seed in range(int(sys.argv[1]))])"
CALLS = f"{ALONE} import core_calls; raise SystemExit(core_calls.run())"
PYTEST = f"{ALONE} import pytest; raise SystemExit(pytest.main(sys.argv[1:]))"
LEFT_OUT = shutil.ignore_patterns(".git", ".tox", ".venv", "build", "*.egg-info", "*.so", "__pycache__", ".*_cache", "fuzz_found")


def library(name: str) -> str:
    """The path of a sanitiser's library, which must be loaded before Python, as Python is not built with it."""
    compiler = os.environ.get("CC", "gcc")
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        raise SystemExit(f"{compiler} has no {name}: install the sanitisers of your compiler.")
    return found


def build(checkout: Path, folder: Path) -> Path:
    """A copy of the checkout with sanitised cores in it."""
    copy = folder / "checkout"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=LEFT_OUT)
    environment = os.environ | {"NPU_TESTBED_SANITIZE": "1"}
    subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=copy, env=environment, check=True)
    return copy


def main() -> int:
    """Build, and run the tests, the streams and the calls; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("folder", type=Path, help="where the copy is made")
    parser.add_argument("--cases", type=int, default=100, help="damaged streams (default: 100)")
    parser.add_argument("--calls", type=int, default=2200, help="recorded calls with one value changed (default: 2200)")
    parser.add_argument("tests", nargs="*", help="what pytest runs (default: the tests of each core)")
    arguments = parser.parse_intermixed_args()
    copy = build(arguments.checkout.resolve(), arguments.folder.resolve())
    environment = os.environ | {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        # Python frees little of what it has at its end; a size that no memory has is an answer, not a fault.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join((str(copy), str(copy / "tests"))),
    }
    loaded = "import npu_model._native as n; import sys; sys.exit(not n.__file__.startswith(sys.argv[1]))"
    commands = (
        [sys.executable, "-c", loaded, str(copy)],
        [sys.executable, "-c", PYTEST, "-q", "-p", "no:cacheprovider", *(arguments.tests or TESTS)],
        [sys.executable, "-c", DAMAGED, str(arguments.cases)],
        [sys.executable, "-c", CALLS, "--calls", str(arguments.calls)],
    )
    for command in commands:
        status = subprocess.run(command, cwd=copy, env=environment, check=False).returncode
        if status:
            return abs(status)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
