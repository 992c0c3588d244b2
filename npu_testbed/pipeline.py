"""The old second Python API: each of its names warns and leads to where it is now. The module goes with the next version."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

_NOW = {
    "Progress": "npu_testbed.progress",
    "Simulation": "npu_testbed.simulation",
    "VelaOptions": "npu_testbed.simulation",
    "export_files": "npu_testbed.program_files",
    "inspect": "npu_testbed.program_files",
    "prove": "npu_testbed.file_verification",
    "read_schedule": "npu_testbed.scheduling",
    "simulate_schedule": "npu_testbed.simulation",
    "simulate_vela": "npu_testbed.simulation",
    "verify": "npu_testbed.file_verification",
    "write_files": "npu_testbed.program_files",
    "write_schedule": "npu_testbed.scheduling",
    "write_trace": "npu_testbed.simulation",
}
"""Modules of names that are as they were."""


def _schedule(source: str, accelerator_config: str = "ethos-u55-128", *, cascade: bool = True, **options: Any) -> Any:
    verbs = import_module("npu_testbed.verbs")
    said = {"jobs" if name == "processes" else "home" if name == "homes" else name: value for name, value in options.items()}
    return verbs.schedule(source, accelerator_config=accelerator_config, no_cascade=not cascade, no_advice=True, **said).schedule


def __getattr__(name: str) -> Any:
    if name == "schedule":
        warnings.warn("npu_testbed.pipeline.schedule is npu_testbed.schedule(...).schedule now.", DeprecationWarning, stacklevel=2)
        return _schedule
    if name not in _NOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"npu_testbed.pipeline.{name} is {_NOW[name]}.{name} now.", DeprecationWarning, stacklevel=2)
    return getattr(import_module(_NOW[name]), name)
