"""The error of cycles on a network that was not measured, in words."""

from __future__ import annotations

from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.left_out_errors import kept_left_out

_OFF = ("timing adapter off", "timing adapter u65_off")
_ON = ("timing adapter u55_high_end", "timing adapter u65_high_end")
"""Names of the memory systems with which the families were measured."""


FITTED = {"u85": "3.8 % on average and 11.7 % at worst on the 17 points that its rules are fitted to, and unknown elsewhere (u85)"}
"""The error of families whose networks all took part in the choice of rules."""


def unseen_text(device: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> str:
    """The error on networks that took no part in the choice of the model's rules.

    For the Ethos-U85 it is that on the points that the rules are fitted to. Empty for other timing than the default one.

    >>> from npu_model.memory.timing_adapter import profile
    >>> unseen_text("ethos-u85-128", profile("off").memory_system()) == FITTED["u85"]
    True
    """
    is_off = system.name in _OFF
    rows = [row for row in kept_left_out() if device.startswith(row.family) and row.adapters != is_off]
    if timing != DEFAULT_TIMING:
        return ""
    if not rows:
        return FITTED.get(accelerator(device).family, "")
    (row,) = rows
    where = f"timing adapters {'off' if is_off else 'on'}" if is_off or system.name in _ON else "measured with Arm's timing adapters on"
    return f"{row.mean:.1%} on average and {row.worst:.1%} at worst, on networks that the model was not chosen on ({row.family}, {where})"
