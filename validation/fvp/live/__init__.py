"""Live comparison with an installed Corstone FVP: counters, and operations where it writes a PMU trace."""

from validation.fvp.live.counters import FvpCounters, parse_log
from validation.fvp.live.live import CounterRow, LiveResult, render, validate_live
from validation.fvp.live.operations import OperationRow, compare_operations
from validation.fvp.live.pmu_trace import StreamTrace, read_pmu_trace
from validation.fvp.live.runner import FvpOptions, FvpRun, find_binary, find_firmware, run_fvp

__all__ = [
    "CounterRow",
    "FvpCounters",
    "FvpOptions",
    "FvpRun",
    "LiveResult",
    "OperationRow",
    "StreamTrace",
    "compare_operations",
    "find_binary",
    "find_firmware",
    "parse_log",
    "read_pmu_trace",
    "render",
    "run_fvp",
    "validate_live",
]
