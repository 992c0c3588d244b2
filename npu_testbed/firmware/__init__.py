"""Firmware on an emulated Cortex-M core with an NPU: chips as data, ELF files as input, the UART's text as output."""

from npu_testbed.firmware.chip import FirmwareChip, chip_names, load_chip
from npu_testbed.firmware.run import FirmwareRun, run_firmware

__all__ = ["FirmwareChip", "FirmwareRun", "chip_names", "load_chip", "run_firmware"]
