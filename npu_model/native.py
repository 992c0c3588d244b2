"""The compiled cores: the packages that have one, their version, and the switch that does without."""

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


VERSION = 30
"""Version of the compiled cores that this code calls: ``CORE_VERSION`` of npu_model/flat.h. A core of another version is not used."""

_BUILD = "python setup.py build_ext --inplace"


def _is_ours(core: ModuleType) -> bool:
    """Whether a core has our version; cores that were built before there were versions say none."""
    return getattr(core, "VERSION", None) == VERSION


def native(package: str) -> ModuleType | None:
    """The compiled core of one of our packages; None if it was not built, is of another version, or is switched off."""
    if os.environ.get(SWITCH):
        return None
    try:
        core = import_module(f"{package}._native")
    except ImportError:
        return None
    return core if _is_ours(core) else None


def _built(package: str) -> ModuleType | None:
    """A package's core if it is there and loads; the package itself is not imported, which takes much longer."""
    spec = PathFinder.find_spec("_native", [str(Path(__file__).parents[1].joinpath(*package.split(".")))])
    try:
        return module_from_spec(spec) if spec else None
    except ImportError:
        return None


def cores_text() -> str:
    """The compiled cores that run, and why others do not, as a user is told."""
    if os.environ.get(SWITCH):
        return f"compiled cores: none, as {SWITCH} is set"
    built = {package: core for package in PACKAGES if (core := _built(package))}
    if not built:
        return "compiled cores: none, as none was built; with a C compiler an installation has them, and searches some ten times faster"
    running = [package for package, core in built.items() if _is_ours(core)]
    missing = [package for package in PACKAGES if package not in built]
    stale = [package for package in built if package not in running]
    text = f"compiled cores: {', '.join(running) or 'none'}"
    text += f"; not built: {', '.join(missing)}" if missing else ""
    return text + (f"; of another version (build again with `{_BUILD}`): {', '.join(stale)}" if stale else "")
