"""Points of a sweep, which are Requests: their names."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from cascader.ethosu.search.request import ModelSource, Request
from npu_model.accelerator import accelerator
from npu_testbed.devices.memory_options import memory_system_json
from npu_testbed.devices.timing import timing_json
from npu_testbed.ground.answers import key_of_request


def macs_of(request: Request) -> int:
    """Multiply-accumulates a cycle of the accelerator."""
    return accelerator(request.device).macs_per_cycle


def point_json(request: Request) -> dict[str, Any]:
    """A point as values that JSON can hold."""
    source = request.source
    assert isinstance(source, ModelSource)  # noqa: S101  # a sweep is about models
    return {
        "model": source.name,
        "model_sha256": source.sha256,
        "accelerator": request.device,
        "memory_system": to_builtins(memory_system_json(request.memory)),
        "settings": dict(request.names.settings),
        "budget_bytes": request.budget,
        "optimise": request.optimise,
        "effort": request.effort,
        "timing": timing_json(request.timing),
        "homes": list(request.homes),
        "recompute": None if request.recompute is None else float(request.recompute),
        "within_percent": float(request.within * 100),
    }


def key_of_point(request: Request) -> str:
    """The digest of everything that determines the answer to a point."""
    return key_of_request("sweep", request)
