"""The Python API: one function per command of the command line, from sources to values; nothing is printed here.

>>> from npu_testbed.pipeline import schedule, simulate_schedule
>>> plan = schedule("zoo:tiny_conv", cascade=False)
>>> plan.arena_size, simulate_schedule(plan).replay.footprint.peak
(8192, 8192)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front

if TYPE_CHECKING:
    from npu_testbed.file_verification import prove, verify
    from npu_testbed.program_files import export_files, inspect, write_files
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

# A command loads what it asks for.
__getattr__ = front(
    __name__,
    {
        "npu_testbed.file_verification": ("prove", "verify"),
        "npu_testbed.program_files": ("export_files", "inspect", "write_files"),
        "npu_testbed.progress": ("Progress",),
        "npu_testbed.scheduling": ("read_schedule", "schedule", "write_schedule"),
        "npu_testbed.simulation": ("Simulation", "VelaOptions", "simulate_schedule", "simulate_vela", "write_trace"),
    },
)
