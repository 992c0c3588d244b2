"""Functional execution of Programs: the tensors that the NPU computes, bit for bit."""

from sim.functional.boxes import ElementBox, boxes
from sim.functional.defined import require_defined
from sim.functional.execute import OnOperation, execute
from sim.functional.filters import FilterCache
from sim.functional.memory import RegionBytes
from sim.functional.network import NetworkState, OnCpu, is_copy, run, runs_here
from sim.functional.regions import Store

__all__ = [
    "ElementBox",
    "FilterCache",
    "NetworkState",
    "OnCpu",
    "OnOperation",
    "RegionBytes",
    "Store",
    "boxes",
    "execute",
    "is_copy",
    "require_defined",
    "run",
    "runs_here",
]
