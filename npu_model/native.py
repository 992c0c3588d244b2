"""The compiled cores: which packages have theirs, and the switch that does without."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

SWITCH = "NPU_TESTBED_PURE"
"""Environment variable: anything but nothing runs the Python forms alone."""


def native(package: str) -> ModuleType | None:
    """The compiled core of one of our packages; None if it was not built, or is switched off."""
    if os.environ.get(SWITCH):
        return None
    try:
        return import_module(f"{package}._native")
    except ImportError:
        return None
