"""The old second Python API: each of its names warns and leads to where it is now. The module goes with the next version."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

_NOW = {
    "Progress": "npu_testbed.ground.progress",
    "Simulation": "npu_testbed.replays.simulation",
    "export_files": "npu_testbed.replays.program_files",
    "inspect": "npu_testbed.replays.program_files",
    "prove": "npu_testbed.proofs.file_verification",
    "read_schedule": "npu_testbed.replays.scheduling",
    "verify": "npu_testbed.proofs.file_verification",
    "write_files": "npu_testbed.replays.program_files",
    "write_schedule": "npu_testbed.replays.scheduling",
    "write_trace": "npu_testbed.replays.simulation",
}
"""Modules of names that are as they were."""


def _schedule(source: str, accelerator_config: str = "ethos-u55-128", *, cascade: bool = True, **options: Any) -> Any:
    verbs = import_module("npu_testbed.verbs")
    said = {"jobs" if name == "processes" else "home" if name == "homes" else name: value for name, value in options.items()}
    return verbs.schedule(source, accelerator_config=accelerator_config, no_cascade=not cascade, no_advice=True, **said).schedule


def _simulate_schedule(plan: Any, **options: Any) -> Any:
    return import_module("npu_testbed.verbs").simulate_schedule(plan, no_advice=True, **options).simulation


def _simulate_vela(source: str, options: dict[str, Any] | None = None, **more: Any) -> Any:
    said = {"home" if name == "homes" else name: value for name, value in ((options or {}) | more).items()}
    return import_module("npu_testbed.verbs").simulate_vela(source, no_advice=True, **said).simulation


def _vela_options(accelerator: str | None = None, optimise: str | None = None, **options: Any) -> dict[str, Any]:
    return {"accelerator_config": accelerator, "optimise": optimise, **options}


_ANEW = {
    "schedule": (_schedule, "npu_testbed.schedule(...).schedule"),
    "simulate_schedule": (_simulate_schedule, "npu_testbed.simulate_schedule(...).simulation"),
    "simulate_vela": (_simulate_vela, "npu_testbed.simulate_vela(...).simulation"),
    "VelaOptions": (_vela_options, "keywords of npu_testbed.simulate_vela"),
}
"""Names that are verbs, or options of verbs: the old arguments lead to the new ones."""


def __getattr__(name: str) -> Any:
    if name in _ANEW:
        found, now = _ANEW[name]
        warnings.warn(f"npu_testbed.pipeline.{name} is {now} now.", DeprecationWarning, stacklevel=2)
        return found
    if name not in _NOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"npu_testbed.pipeline.{name} is {_NOW[name]}.{name} now.", DeprecationWarning, stacklevel=2)
    return getattr(import_module(_NOW[name]), name)
