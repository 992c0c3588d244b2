"""Region numbers: what the base-pointer regions of a Program hold, as Vela numbers them and our schedules do."""

from __future__ import annotations

CONSTANTS = 0
"""Weights, scales, tables and constant feature maps."""

ARENA = 1
"""All other feature maps."""
