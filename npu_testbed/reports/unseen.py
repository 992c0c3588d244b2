"""The error of cycles on a network that was not measured, in words."""

from __future__ import annotations

from npu_model.memory.ports import measured_with
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.left_out_errors import kept_left_out

_OFF = ("timing adapter off", "timing adapter u65_off")
"""Names of the memory systems without timing adapters."""


def unseen_text(device: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> str:
    """The error on networks that took no part in the choice of the model's rules; empty for other timing than the default one.

    >>> from npu_model.memory.timing_adapter import profile
    >>> unseen_text("ethos-u85-128", profile("off").memory_system()).rpartition("(")[2]
    "ethos-u85, measured with Arm's timing adapters on)"
    """
    rows = [row for row in kept_left_out() if device.startswith(row.family)]
    if timing != DEFAULT_TIMING or not rows:
        return ""
    is_off = system.name in _OFF
    row = next((row for row in rows if row.adapters != is_off), rows[0])
    if not row.adapters:
        where = "timing adapters off"
    elif system.name == f"timing adapter {measured_with(device)}":
        where = "timing adapters on"
    else:
        where = "measured with Arm's timing adapters on"
    of = f"on networks that played no part in choosing the model ({row.family}, {where})"
    return f"{row.mean:.1%} on average and {row.worst:.1%} at worst, {of}"
