"""The NPU behind its registers: a device that firmware, a driver or an emulator runs bit by bit and cycle by cycle."""

from sim.device.bus import BufferBus, Bus, BusError
from sim.device.npu import Device

__all__ = ["BufferBus", "Bus", "BusError", "Device"]
