"""Measurements beside the replay, layer by layer: a PMU trace, samples of a running board, or a table of layers."""

from npu_testbed.measured.reading import Measured, PerLayer, Sampled, Traced, read_measured
from npu_testbed.measured.report import measured_json, measured_note, measured_text
from npu_testbed.measured.rows import Beside, MeasuredRow, beside_measured

__all__ = [
    "Beside",
    "Measured",
    "MeasuredRow",
    "PerLayer",
    "Sampled",
    "Traced",
    "beside_measured",
    "measured_json",
    "measured_note",
    "measured_text",
    "read_measured",
]
