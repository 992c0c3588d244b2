"""Vela's own estimate, reproduced from its debug database: the baseline that schedules are compared with, and drift detection."""

from validation.vela_estimate.compare import ColumnRow, Comparison, compare

__all__ = ["ColumnRow", "Comparison", "compare"]
