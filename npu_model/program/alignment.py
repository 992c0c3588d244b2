"""Alignment that the NPU asks of addresses and lengths."""

from __future__ import annotations

ALIGNMENT = 16
"""Bytes of which these are multiples on the U55: NHCWB16 bases and strides, weight and scale streams, command streams, the regions of a
job, and source, destination and length of a transfer (core driver ``ethosu55_interface.h``, ``ethosu_driver.c``). Vela places every tensor
at a multiple, too."""
