"""A chip that runs: the core in slices of instructions, the clocks of its NPUs, and the connections between them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from npu_model.errors import InputError
from npu_model.programmer_registers import REGISTER_BYTES
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.firmware.chip import PAGE, FirmwareChip, MemoryBlock, NpuBlock
from npu_testbed.firmware.core import EmulatedCore
from npu_testbed.firmware.elf import ElfSegment, Firmware
from npu_testbed.firmware.semihosting import Exit, Semihosting
from npu_testbed.firmware.system_space import BASE, SIZE, SystemSpace
from sim.device import BufferBus, Device

_DATA = 0x00
_CMSDK_STATE, _CMSDK_BAUD = 0x04, 0x10
_PL011_FLAGS, _PL011_EMPTY = 0x18, 0x90
"""PL011 UARTFR: transmit FIFO empty, receive FIFO empty."""


class Uart:
    """One UART of a kind (cmsdk, pl011). ``put`` takes each byte that is sent."""

    def __init__(self, kind: str, put: Callable[[int], None]) -> None:
        self._kind, self._put = kind, put
        self._kept: dict[int, int] = {}

    def read(self, offset: int) -> int:
        """The register at an offset; 0 for registers that only a real line would change."""
        if self._kind == "pl011":
            return _PL011_EMPTY if offset == _PL011_FLAGS else 0 if offset == _DATA else self._kept.get(offset, 0)
        return 0 if offset in (_DATA, _CMSDK_STATE) else self._kept.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Send a byte, or store a written register."""
        if offset == _DATA:
            self._put(value & 0xFF)
        else:
            self._kept[offset] = value


SLICE = 1000
"""Instructions between two looks at interrupts and clocks; the FVP's quantum is of that size."""

END_OF_TRANSMISSION = 4
"""The byte on a UART that ends the run, like the FVP's option shutdown_on_eot."""

_SLEEPS = (b"\x30\xbf", b"\x20\xbf")
"""WFI and WFE."""


def _sleeps(segment: ElfSegment) -> Iterator[int]:
    """Addresses of possible WFI and WFE instructions. Data that looks like one is never executed."""
    for instruction in _SLEEPS:
        at = segment.content.find(instruction)
        while at >= 0:
            if not at & 1:
                yield segment.address + at
            at = segment.content.find(instruction, at + 1)


class _NpuBus(BufferBus):
    """The NPU's side of the memories; its interrupt line goes to the core."""

    def __init__(self, memories: dict[int, Any], line: Callable[[bool], None]) -> None:
        super().__init__(memories)
        self._line = line

    def interrupt(self, level: bool) -> None:  # noqa: FBT001  # see Bus
        super().interrupt(level)
        self._line(level)


class FirmwareMachine:
    """A chip with firmware in its memories. ``output`` collects the text that it sends and prints; ``npus`` are its devices."""

    def __init__(self, chip: FirmwareChip, firmware: Firmware, timing: TimingParameters = DEFAULT_TIMING) -> None:
        self.chip = chip
        self.output = bytearray()
        self._buffers = [(block, (ctypes.c_ubyte * block.size)()) for block in chip.memories]
        self.space = SystemSpace(chip.core.cpu, chip.core.vector_table, self._reset)
        self.core = EmulatedCore(chip.core.cpu, self.space)
        self.core.on_break = Semihosting(self.core.memory, self._put).call
        for block, buffer in self._buffers:
            for address in block.addresses:
                self.core.map_buffer(address, buffer, writable=block.writable)
        self.core.map_registers(BASE, SIZE, self.space.read, self.space.write)
        self.npus = tuple(self._npu(block, timing) for block in chip.npus)
        for uart in chip.uarts:
            port = Uart(uart.kind, self._put)
            for address in uart.addresses:
                self.core.map_registers(address, PAGE, port.read, port.write)
        self._load(firmware)
        self._behind = [Fraction(0)] * len(self.npus)

    def _npu(self, block: NpuBlock, timing: TimingParameters) -> Device:
        memories = {
            address: memoryview(buffer) if one.writable else memoryview(buffer).toreadonly()
            for one, buffer in self._buffers
            if one.npu
            for address in one.addresses
        }
        bus = _NpuBus(memories, lambda level: self.space.line(block.interrupt, level=level))
        device = Device(block.accelerator, block.memory_system, bus, timing)
        for address in block.addresses:
            self.core.map_registers(address, REGISTER_BYTES, device.read, device.write)
        return device

    def _put(self, byte: int) -> None:
        if byte == END_OF_TRANSMISSION:
            raise Exit(0)
        self.output.append(byte)

    def _reset(self) -> None:
        """AIRCR.SYSRESETREQ: the run ends, because nothing would start the firmware again."""
        raise Exit(0)

    # -- loading

    def _place(self, address: int, length: int) -> tuple[MemoryBlock, Any, int]:
        for block, buffer in self._buffers:
            for first in block.addresses:
                if first <= address and address + length <= first + block.size:
                    return block, buffer, address - first
        raise InputError(
            f"The firmware has {length} bytes at {address:#x}: no memory of the chip {self.chip.name} has room for them; "
            "link it for this chip, or give the chip that memory."
        )

    def load(self, address: int, content: bytes) -> None:
        """Put bytes into memory; InputError if the chip has none there."""
        _, buffer, start = self._place(address, len(content))
        ctypes.memmove(ctypes.addressof(buffer) + start, content, len(content))

    def _load(self, firmware: Firmware) -> None:
        for segment in firmware.segments:
            if segment.content:
                self.load(segment.address, segment.content)
            if segment.zeros:
                self._place(segment.zeros_from, segment.zeros)
        self.core.sleep_at(sorted(address for segment in firmware.segments if segment.executable for address in _sleeps(segment)))
        table = self.core.memory(self.space.vector_table, 8)
        stack, entry = int.from_bytes(table[:4], "little"), int.from_bytes(table[4:], "little")
        if not entry & 1 or not stack:
            raise InputError(
                f"The vector table at {self.space.vector_table:#x} begins with {stack:#x} and {entry:#x}: a stack and an odd address of "
                "Thumb code are needed; set vector_table in the chip's [core] to where the firmware has it."
            )
        self.core.reset(stack, entry)

    # -- running

    def _npu_cycles(self, index: int, core_cycles: int) -> int:
        """NPU cycles of some core cycles. A fraction of a cycle is kept for the next call."""
        exact = self._behind[index] + Fraction(core_cycles * self.chip.npus[index].clock_hz, self.chip.core.clock_hz)
        self._behind[index] = exact - int(exact)
        return int(exact)

    def _advance(self, cycles: int) -> None:
        self.space.advance(cycles)
        for index, npu in enumerate(self.npus):
            npu.advance(self._npu_cycles(index, cycles))

    def _until_event(self) -> int | None:
        """Core cycles until an NPU or SysTick may wake the core; None if nothing will."""
        core_hz = self.chip.core.clock_hz
        waits = [
            -(-idle * core_hz // block.clock_hz)
            for npu, block in zip(self.npus, self.chip.npus, strict=True)
            if (idle := npu.idle_for) is not None
        ]
        tick = self.space.idle_for()
        return min([*waits, *([tick] if tick is not None else [])], default=None)

    @property
    def core_cycles(self) -> int | None:
        """Cycles of the core so far."""
        return self.space.cycle

    def run(self, seconds: Fraction, spans: Sequence[tuple[int, int]] = ()) -> tuple[int | None, tuple[bytes, ...]]:
        """Run until the firmware ends, and return its exit code with the memory of ``spans`` (address and size).

        The exit code is None if the firmware has not ended within ``seconds`` of its own time. StoppedError if the core cannot continue, or
        sleeps where nothing can wake it.
        """
        limit = int(seconds * self.chip.core.clock_hz)
        try:
            while self.space.cycle < limit:
                self.core.run(SLICE)
                self._advance(SLICE * self.chip.core.cycles_per_instruction)
                while self.core.sleeps and not self.core.wakes() and self.space.cycle < limit:
                    self._advance(min(max(1, self._sleep()), limit - self.space.cycle))
        except Exit as end:
            return end.code, tuple(self.core.memory(address, size) for address, size in spans)
        return None, ()

    def _sleep(self) -> int:
        cycles = self._until_event()
        return self.chip.core.clock_hz if cycles is None else cycles
