"""Region numbers: the content of a Program's base-pointer regions, as Vela and our schedules number them."""

from __future__ import annotations

CONSTANTS = 0
"""Weights, scales, tables and constant feature maps."""

ARENA = 1
"""All feature maps without another home."""

FIRST_HOME = 3
"""First region for tensors outside the arena: an operator's inputs and then its outputs (TFLite Micro), then others."""

REGIONS = 8
"""Base pointers of the NPU (BASEP0 to BASEP7, core driver)."""
