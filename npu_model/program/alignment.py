"""Alignment: what the NPU wants of addresses and lengths."""

from __future__ import annotations

ALIGNMENT = 16
"""Bytes: NHCWB16 bases and strides, weight and scale streams, source, destination and length of a transfer, command streams and the regions
of a job are multiples of this on the U55 (core driver ``ethosu55_interface.h``, ``ethosu_driver.c``). Vela places every tensor so, too."""
