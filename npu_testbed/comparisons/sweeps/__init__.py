"""Sweeps: schedules of networks on every combination of MAC configurations, memory systems, budgets and parameters."""

from npu_testbed.comparisons.sweeps.run import Result, sweep
from npu_testbed.documents.sweep import Answer

__all__ = ["Answer", "Result", "sweep"]
