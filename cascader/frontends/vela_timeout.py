"""The time that a compilation with Vela may take."""

from __future__ import annotations

import os

from npu_model.errors import InputError
from npu_model.printable import shown

TIMEOUT_SECONDS = 120.0
"""Bound of one compilation; the largest networks of the test data take 1 s, Vela's older core up to 10 s."""

TIMEOUT_VARIABLE = "NPU_TESTBED_VELA_TIMEOUT"
"""Environment variable with another bound in seconds, which reaches the processes that share a search, too."""

MAX_TIMEOUT = 7 * 24 * 3600


def time_limit() -> float:
    """The bound of a compilation in seconds; InputError if the environment variable holds none."""
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
