"""The requested timing, such as a calibration profile's, and its description in reports."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from npu_model.front import later
from npu_model.timing import DEFAULT_TIMING, TimingParameters

with later():
    from validation import reading
    from validation.calibrate import profile


def load_timing(path: str | Path | None) -> TimingParameters:
    """The timing parameters of a profile that calibrate fit wrote, or of any TOML file with its table [timing]; None: the model's."""
    if path is None:
        return DEFAULT_TIMING
    # Only a user of a profile pays for the calibration.

    return profile.timing_from_toml(reading.read_configuration(path, "Calibration profile"))


def timing_json(timing: TimingParameters, names: Sequence[str] | None = None) -> dict[str, int | bool | str]:
    """The parameters ``names`` as a profile has them. None: those that differ from the model's, which are none for the model itself."""
    values = {name: getattr(timing, name) for name in (timing.changed() if names is None else names)}
    plain = {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
    return {name: value if isinstance(value, (int, str)) else str(value) for name, value in plain.items()}


def timing_text(timing: TimingParameters) -> str:
    """The same in one line."""
    return ", ".join(f"{name} = {str(value).lower() if isinstance(value, bool) else value}" for name, value in timing_json(timing).items())


def timing_clause(timing: TimingParameters) -> str:
    """A clause for the head of a report; nothing for the model itself."""
    return "" if timing == DEFAULT_TIMING else f", timing {timing_text(timing)}"
