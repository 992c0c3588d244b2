"""The compiled cores: the packages that have one, their version, and the switch that runs without them."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

SWITCH = "NPU_TESTBED_PURE"
"""Environment variable: with any value only the Python forms run."""

PACKAGES = ("npu_model", "cascader", "cascader.ethosu", "sim")
"""The packages that have a core."""


VERSION = 59
"""Version of the compiled cores that this code calls: ``CORE_VERSION`` of npu_model/flat.h. A core of another version is not used."""

_BUILD = "python setup.py build_ext --inplace"

SLOWER = 30
"""Factor of the CPU seconds that a search takes without the cores.

The searches of two built-in networks of 9 and 12 layers took 18 (``zoo:resnet8``) and 43 times (``zoo:ds_cnn``), on one Linux machine.
"""


def _is_ours(core: ModuleType) -> bool:
    """Whether a core has our version. Cores older than the first version number have none."""
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
    """A package's core if it exists and loads; the package itself is not imported, which would take much longer."""
    spec = PathFinder.find_spec("_native", [str(Path(__file__).parents[1].joinpath(*package.split(".")))])
    try:
        return module_from_spec(spec) if spec else None
    except ImportError:
        return None


def cores_text() -> str:
    """A text for users: the running compiled cores, and why others do not run."""
    if os.environ.get(SWITCH):
        return f"compiled cores: none, as {SWITCH} is set"
    built = {package: core for package in PACKAGES if (core := _built(package))}
    if not built:
        return f"compiled cores: none, as none was built; {_remedy()}"
    running = [package for package, core in built.items() if _is_ours(core)]
    missing = [package for package in PACKAGES if package not in built]
    stale = [package for package in built if package not in running]
    text = f"compiled cores: {', '.join(running) or 'none'}"
    text += f"; not built: {', '.join(missing)}" if missing else ""
    return text + (f"; of another version (build again with `{_BUILD}`): {', '.join(stale)}" if stale else "")


def _is_checkout() -> bool:
    """Whether the running packages lie next to the sources of the cores, where only a build in place puts cores."""
    return Path(__file__).parents[1].joinpath("setup.py").is_file()


def _remedy() -> str:
    way = "with a C compiler `pip install -e .` builds them in this checkout, which then"
    return f"{way if _is_checkout() else _INSTALLED} searches some {SLOWER} times faster"


_INSTALLED = "with a C compiler, or from a binary wheel, an installation has them, and"


def slow_sentence() -> str | None:
    """A warning that searches will be slow, by how much and why; None if every core runs."""
    if os.environ.get(SWITCH):
        reason = (
            f"This will be slow: a search takes some {SLOWER} times as long without the compiled cores, and {SWITCH} switches them off."
        )
        return f"{reason} {_BY_ESTIMATES}"
    missing = [package for package in PACKAGES if not ((core := _built(package)) and _is_ours(core))]
    if not missing:
        return None
    begin = f"This will be slow: of {len(PACKAGES)} compiled cores {len(missing)} are missing or of another version, and a search"
    way = f"{begin} then takes some {SLOWER} times as long"
    if _is_checkout():
        remedy = f"{way}; Python takes the packages of this checkout: run `pip install -e .` in it."
    else:
        remedy = f"{way} (see `npu-testbed --version`); install with a C compiler, or a binary wheel."
    return f"{remedy} {_BY_ESTIMATES}" if "sim" in missing else remedy


_BY_ESTIMATES = "The search decides by estimates and replays its answer alone."
"""Sentence on a search without the core of ``sim``."""
