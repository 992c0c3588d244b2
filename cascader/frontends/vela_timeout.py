"""The time limit of a compilation by Vela."""

from __future__ import annotations

import os

from npu_model.errors import InputError
from npu_model.printable import shown

TIMEOUT_SECONDS = 120.0
"""Time limit of one compilation in seconds. The largest networks of the test data take 1 s, and up to 10 s with Vela's older core."""

TIMEOUT_VARIABLE = "NPU_TESTBED_VELA_TIMEOUT"
"""Environment variable with another limit in seconds. Worker processes of a search see it too."""

MAX_TIMEOUT = 7 * 24 * 3600


def time_limit() -> float:
    """The time limit of a compilation in seconds; InputError if the environment variable holds no number."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    if not text:
        return TIMEOUT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise InputError(f"{TIMEOUT_VARIABLE} is {shown(text)}: set it to seconds above 0, up to {MAX_TIMEOUT}.")
    return seconds
