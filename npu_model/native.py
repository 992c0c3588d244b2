"""The compiled cores: which packages have theirs, and the switch that does without."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

SWITCH = "NPU_TESTBED_PURE"
"""Environment variable: anything but nothing runs the Python forms alone."""

PACKAGES = ("npu_model", "cascader", "cascader.ethosu", "sim")
"""The packages that have a core."""


def native(package: str) -> ModuleType | None:
    """The compiled core of one of our packages; None if it was not built, or is switched off."""
    if os.environ.get(SWITCH):
        return None
    try:
        return import_module(f"{package}._native")
    except ImportError:
        return None


def _is_built(package: str) -> bool:
    """Whether a package's core is there and loads; the package itself is not imported, which takes much longer."""
    spec = PathFinder.find_spec("_native", [str(Path(__file__).parents[1].joinpath(*package.split(".")))])
    try:
        return spec is not None and module_from_spec(spec) is not None
    except ImportError:
        return False


def cores_text() -> str:
    """The compiled cores that run, and why others do not, as a user is told."""
    if os.environ.get(SWITCH):
        return f"compiled cores: none, as {SWITCH} is set"
    built = [package for package in PACKAGES if _is_built(package)]
    if not built:
        return "compiled cores: none, as none was built; with a C compiler an installation has them, and searches some ten times faster"
    missing = [package for package in PACKAGES if package not in built]
    return f"compiled cores: {', '.join(built)}" + (f"; not built: {', '.join(missing)}" if missing else "")
