"""Sweeps: schedules of networks on every combination of MAC configurations, memory systems, budgets and parameters."""

from npu_testbed.comparisons.sweeps.points import Answer
from npu_testbed.comparisons.sweeps.run import Result, sweep

__all__ = ["Answer", "Result", "sweep"]
