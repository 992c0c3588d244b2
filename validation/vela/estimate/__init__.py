"""Vela's own estimate, reproduced from its debug database: the baseline that schedules are compared with, and drift detection."""

from validation.vela.estimate.compare import ColumnRow, EstimateComparison, compare
from validation.vela.estimate.estimate_tables import Tally, deviations, passed, render, tally, to_json

__all__ = ["ColumnRow", "EstimateComparison", "Tally", "compare", "deviations", "passed", "render", "tally", "to_json"]
