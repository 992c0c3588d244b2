"""Functional execution of Programs: the tensors that the NPU computes, bit for bit."""

from sim.functional.defined import require_defined
from sim.functional.execute import OnOperation, execute
from sim.functional.filters import FilterCache
from sim.functional.memory import Memory, Store
from sim.functional.network import run

__all__ = ["FilterCache", "Memory", "OnOperation", "Store", "execute", "require_defined", "run"]
