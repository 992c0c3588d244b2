"""Functional execution of Programs: the tensors that the NPU computes, bit for bit."""

from sim.functional.boxes import Box, boxes
from sim.functional.defined import require_defined
from sim.functional.execute import OnOperation, execute
from sim.functional.filters import FilterCache
from sim.functional.memory import Memory
from sim.functional.network import OnCpu, State, is_copy, run, runs_here
from sim.functional.regions import Store

__all__ = [
    "Box",
    "FilterCache",
    "Memory",
    "OnCpu",
    "OnOperation",
    "State",
    "Store",
    "boxes",
    "execute",
    "is_copy",
    "require_defined",
    "run",
    "runs_here",
]
