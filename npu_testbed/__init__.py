"""The application, and the one import: the commands of ``npu-testbed`` as functions that return what they find.

>>> import npu_testbed
>>> made = npu_testbed.schedule("zoo:tiny_conv", no_cascade=True)
>>> made.arena_bytes, npu_testbed.simulate_schedule(made).cycles == made.cycles
(8192, True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_testbed.verbs import (
        Error,
        Figures,
        calibrate,
        check,
        compare,
        compile,  # noqa: A004  # the name of the command
        device_run,
        diff,
        export,
        frontier,
        inspect,
        schedule,
        simulate_schedule,
        simulate_vela,
        sweep,
        validate,
        verify,
    )

VERSION = "0.1.0"
"""The product's version; the package metadata takes it from here."""

__all__ = [
    "VERSION",
    "Error",
    "Figures",
    "calibrate",
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
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    """A verb, loaded when it is first asked for: the import of the package alone loads neither numpy nor simpy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npu_testbed import verbs  # noqa: PLC0415  # as said above

    return getattr(verbs, name)


def __dir__() -> list[str]:
    return __all__
