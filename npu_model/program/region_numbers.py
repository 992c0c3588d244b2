"""Region numbers: what the base-pointer regions of a Program hold, as Vela numbers them and our schedules do."""

from __future__ import annotations

CONSTANTS = 0
"""Weights, scales, tables and constant feature maps."""

ARENA = 1
"""All feature maps that have no other home."""

FIRST_HOME = 3
"""First of the regions in which tensors live outside the arena: an operator's inputs and then its outputs (TFLite Micro), then others."""

REGIONS = 8
"""Base pointers of the NPU (BASEP0 to BASEP7, core driver)."""
