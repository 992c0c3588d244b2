"""Calibration: physical parameters of the timing model fitted to measurements, with the errors on left-out measurements."""

from validation.calibrate.calibration import CalibrationCheck, CheckedPoint, calibrate_check, calibrate_fit
from validation.calibrate.measurements import Measurement, read_measurements, reference_measurements
from validation.calibrate.profile import CalibrationProfile, from_toml, reference_profile, timing_from_table, to_toml
from validation.calibrate.tables import check_tables, fit_tables

__all__ = [
    "CalibrationCheck",
    "CalibrationProfile",
    "CheckedPoint",
    "Measurement",
    "calibrate_check",
    "calibrate_fit",
    "check_tables",
    "fit_tables",
    "from_toml",
    "read_measurements",
    "reference_measurements",
    "reference_profile",
    "timing_from_table",
    "to_toml",
]
