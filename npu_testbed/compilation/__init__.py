"""From a network to the compiled file in one step, with the reports that Vela writes."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """The module ``in_place_of_vela`` by its old name, which goes with the next version."""
    if name != "in_place_of_vela":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("npu_testbed.commands.in_place_of_vela is npu_testbed.commands.in_place_of_vela now.", DeprecationWarning, stacklevel=2)
    return import_module("npu_testbed.commands.in_place_of_vela")
