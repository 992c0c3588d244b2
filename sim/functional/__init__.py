"""Functional execution of Programs: the tensors that the NPU computes, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front

if TYPE_CHECKING:
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

# Every compiled network is asked whether its reads are defined; the other functions are only for networks that run.
__getattr__ = front(
    __name__,
    {
        "sim.functional.boxes": ["ElementBox"],
        "sim.functional.copies": ["is_copy", "runs_here"],
        "sim.functional.defined": ["require_defined"],
        "sim.functional.execute": ["OnOperation"],
        "sim.functional.filters": ["FilterCache"],
        "sim.functional.memory": ["RegionBytes"],
        "sim.functional.network": ["NetworkState", "OnCpu", "run"],
        "sim.functional.regions": ["Store"],
    },
)
