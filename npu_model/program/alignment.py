"""Alignment of addresses and lengths that the NPU needs."""

from __future__ import annotations

ALIGNMENT = 16
"""Alignment in bytes of these on the U55: NHCWB16 bases and strides, weight and scale streams, command streams, the regions of a job, and
source, destination and length of a transfer (core driver ``ethosu55_interface.h``, ``ethosu_driver.c``). Vela aligns every tensor to it,
too.
"""
