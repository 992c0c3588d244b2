"""Functional execution of Programs: the tensors that the NPU computes, bit for bit."""

from __future__ import annotations

from npu_model.front import front

# Every compiled network is asked whether its reads are defined; the other functions are only for networks that run.
with front() as __getattr__:
    from sim.functional.boxes import ElementBox
    from sim.functional.copies import is_copy, runs_here
    from sim.functional.defined import require_defined
    from sim.functional.execute import OnOperation
    from sim.functional.filters import FilterCache
    from sim.functional.memory import RegionBytes
    from sim.functional.network import NetworkState, OnCpu, run
    from sim.functional.regions import Store

__all__ = [
    "ElementBox",
    "FilterCache",
    "NetworkState",
    "OnCpu",
    "OnOperation",
    "RegionBytes",
    "Store",
    "is_copy",
    "require_defined",
    "run",
    "runs_here",
]
