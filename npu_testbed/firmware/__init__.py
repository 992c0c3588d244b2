"""Firmware on an emulated Cortex-M core with the NPU in its address space: chips as data, ELF files in, what the UART printed out."""

from npu_testbed.firmware.chip import FirmwareChip, chip_names, load_chip
from npu_testbed.firmware.run import FirmwareRun, run_firmware

__all__ = ["FirmwareChip", "FirmwareRun", "chip_names", "load_chip", "run_firmware"]
