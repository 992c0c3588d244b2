"""Calibrations for tests: short measurements, and the same as an NPU with other parameters would give them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from npu_model.timing import TimingParameters
from validation.calibrate import Measurement, reference_measurements
from validation.calibrate.evaluation import Evaluator

TOOLS = (("npu-testbed", "0"),)


def needs_scipy() -> None:
    """Skip the test without SciPy."""
    pytest.importorskip("scipy", reason="SciPy (extra calibrate) is not installed, which fits")


def short_measurements() -> tuple[Measurement, ...]:
    """The measurements that replay in a tenth of a second each."""
    return tuple(m for m in reference_measurements() if m.network == "rnnoise_INT8")


def as_if(measurements: tuple[Measurement, ...], timing: TimingParameters) -> tuple[Measurement, ...]:
    """The same inferences, measured on an NPU that is exactly our model with other parameters."""
    evaluator = Evaluator()
    return tuple(replace(m, active=evaluator.cycles(m, timing)) for m in measurements)
