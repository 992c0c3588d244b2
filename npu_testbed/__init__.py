"""The application, and the one import: the commands of ``npu-testbed`` as functions that return what they find.

>>> import npu_testbed
>>> made = npu_testbed.schedule("zoo:tiny_conv", no_cascade=True)
>>> made.arena_bytes, npu_testbed.simulate_schedule(made).cycles == made.cycles
(8192, True)
"""

# ruff: noqa: F405  # names in __all__ that are imported from npu_testbed.verbs
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npu_model.front import later
from npu_model.version import VERSION

# The import of the package alone loads neither numpy nor simpy.
with later():
    from npu_testbed import verbs as _verbs

if TYPE_CHECKING:
    from npu_testbed.verbs import *  # noqa: F403  # each verb with its type

__all__ = [
    "VERSION",
    "Error",
    "Figures",
    "calibrate_check",
    "calibrate_fit",
    "check",
    "compare",
    "compile",
    "device_run",
    "diff",
    "export",
    "frontier",
    "inspect",
    "schedule",
    "simulate_schedule",
    "simulate_vela",
    "sweep",
    "validate_all",
    "validate_fvp",
    "validate_litert",
    "validate_portfolio",
    "validate_vela",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_verbs, name)


def __dir__() -> list[str]:
    return __all__
