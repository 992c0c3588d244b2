"""Schedules and their proofs in TensorIR, which several test files use; skips them all where TVM is not installed."""

from __future__ import annotations

from functools import cache

import tensorir_only  # noqa: F401  # skips without TVM
from asked_for import schedule

from cascader.ethosu.job.schedule import Schedule
from cascader.tensorir.schedule_run import CompiledSchedule, compile_schedule


@cache
def smallest(name: str) -> Schedule:
    """The schedule of a zoo network that needs least memory."""
    return schedule(f"zoo:{name}", optimise="Size", processes=1)


@cache
def compiled(name: str) -> CompiledSchedule:
    """The smallest schedule of a zoo network as machine code."""
    return compile_schedule(smallest(name))
