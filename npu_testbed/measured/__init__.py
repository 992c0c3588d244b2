"""Measurements that are compared with the replay: a PMU trace, samples of a running board, a table of layers, or the counters in a log."""

from npu_testbed.measured.measured_text import measured_json, measured_note, measured_text
from npu_testbed.measured.reading import Counters, Measured, PerLayer, Sampled, Traced, column_map, read_measured
from npu_testbed.measured.rows import Beside, MeasuredRow, beside_measured

__all__ = [
    "Beside",
    "Counters",
    "Measured",
    "MeasuredRow",
    "PerLayer",
    "Sampled",
    "Traced",
    "beside_measured",
    "column_map",
    "measured_json",
    "measured_note",
    "measured_text",
    "read_measured",
]
