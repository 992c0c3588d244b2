"""The Python API: one function per command of the command line, from sources to values; nothing is printed here.

>>> from npu_testbed.pipeline import schedule, simulate_schedule
>>> plan = schedule("zoo:tiny_conv", cascade=False)
>>> plan.arena_size, simulate_schedule(plan).replay.footprint.peak
(8192, 8192)
"""

from __future__ import annotations

from npu_testbed.program_files import export_files, inspect, prove, verify, write_files
from npu_testbed.progress import Progress
from npu_testbed.scheduling import read_schedule, schedule, write_schedule
from npu_testbed.simulation import Simulation, VelaOptions, simulate_schedule, simulate_vela, write_trace

__all__ = [
    "Progress",
    "Simulation",
    "VelaOptions",
    "export_files",
    "inspect",
    "prove",
    "read_schedule",
    "schedule",
    "simulate_schedule",
    "simulate_vela",
    "verify",
    "write_files",
    "write_schedule",
    "write_trace",
]
