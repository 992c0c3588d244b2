"""A chip whose core runs in QEMU. The emulator's debugger port brings the NPU into its address space.

QEMU stops before every access to the NPU's addresses. This module does the access, and the core continues after it. A run of the NPU is
over before the core's next instruction. A store that the core itself executes makes the interrupt pending.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from cascader.frontends.folders import own_folder
from npu_model.errors import InputError
from npu_model.programmer_registers import REGISTER_BYTES
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.firmware.chip import FirmwareChip
from npu_testbed.firmware.core import StoppedError
from npu_testbed.firmware.gdb_stub import PC, XPSR, GdbStub, StubError
from npu_testbed.firmware.machine import END_OF_TRANSMISSION
from npu_testbed.firmware.thumb_access import ThumbAccess, advanced, thumb_access
from sim.device import BusError, Device

_PROGRAM = "qemu-system-arm"
_PENDING = 0xE000_E200
"""NVIC_ISPR0."""

_BREAK = b"\x03"
"""The byte of GDB's protocol that stops a running core."""

_START_SECONDS = 20


class NotStartedError(InputError):
    """QEMU has ended, or does not answer, before the firmware's first instruction."""


class _StubBus:
    """The NPU's access to QEMU's memory: the part of the chip's memory that the NPU reaches."""

    def __init__(self, chip: FirmwareChip, stub: GdbStub) -> None:
        self._stub = stub
        self._spans = [(first, first + one.size, one.writable) for one in chip.memories if one.npu for first in one.addresses]
        self.rises = False

    def _require(self, address: int, length: int, *, writes: bool) -> None:
        if not any(first <= address and address + length <= end and (writable or not writes) for first, end, writable in self._spans):
            raise BusError(f"no memory {'takes' if writes else 'has'} the {length} bytes from {address:#x} on")

    def read(self, address: int, length: int) -> bytes:
        """Bytes of QEMU's memory; BusError outside the NPU's memory."""
        self._require(address, length, writes=False)
        try:
            return self._stub.read(address, length)
        except StubError as error:
            raise BusError(str(error)) from None

    def write(self, address: int, data: bytes) -> None:
        """Store bytes there; BusError where the NPU cannot."""
        self._require(address, len(data), writes=True)
        try:
            self._stub.write(address, data)
        except StubError as error:
            raise BusError(str(error)) from None

    def interrupt(self, level: bool) -> None:  # noqa: FBT001  # see Bus
        """Note that the line rises."""
        self.rises |= level


class QemuMachine:
    """QEMU with firmware, and the chip's NPUs. ``output`` is the text from the UART."""

    def __init__(
        self, chip: FirmwareChip, firmware: bytes, data: Sequence[tuple[int, bytes]], timing: TimingParameters = DEFAULT_TIMING
    ) -> None:
        program = shutil.which(_PROGRAM)
        if program is None:
            raise InputError(f"The chip {chip.name} needs {_PROGRAM}, which is not installed: Debian has it as the package {_PROGRAM}.")
        self.output = bytearray()
        self._ended, self._halted = False, threading.Event()
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(own_folder())
            self._process = self._start(program, folder, chip, firmware, data)
            stack.callback(self._stop)
            self._reader = threading.Thread(target=self._listen, daemon=True)
            self._reader.start()
            connection = stack.enter_context(contextlib.closing(self._connect(folder / "gdb")))
            self._stub = self._opened(connection)
            self._buses = [_StubBus(chip, self._stub) for _ in chip.npus]
            pairs = zip(chip.npus, self._buses, strict=True)
            self.npus = tuple(Device(block.accelerator, block.memory_system, bus, timing) for block, bus in pairs)
            self._places = {first: index for index, block in enumerate(chip.npus) for first in block.addresses}
            self._interrupts = [block.interrupt for block in chip.npus]
            self._connection = connection
            self._open = stack.pop_all()

    # -- the emulator's process

    @staticmethod
    def _start(
        program: str, folder: Path, chip: FirmwareChip, firmware: bytes, data: Sequence[tuple[int, bytes]]
    ) -> subprocess.Popen[bytes]:
        (folder / "firmware.elf").write_bytes(firmware)
        command = [program, "-M", chip.core.machine, "-display", "none", "-monitor", "none", "-serial", "stdio", "-S"]
        command += ["-kernel", str(folder / "firmware.elf"), "-semihosting-config", "enable=on,target=native"]
        command += ["-chardev", f"socket,path={folder / 'gdb'},server=on,wait=off,id=gdb", "-gdb", "chardev:gdb"]
        for number, (address, content) in enumerate(data):
            (folder / f"data{number}").write_bytes(content)
            command += ["-device", f"loader,file={folder / f'data{number}'},addr={address:#x},force-raw=on"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603  # our own words

    def _complaint(self) -> str:
        """The error messages of a QEMU that did not start."""
        self._process.kill()
        _, errors = self._process.communicate()
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:200] if lines else "it says nothing"

    def _connect(self, path: Path) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if path.exists():
                with contextlib.suppress(OSError):
                    connection.connect(str(path))
                    return connection
            time.sleep(0.02)
        connection.close()
        self._ended = True
        self._reader.join(1)
        raise NotStartedError(f"QEMU does not start with this firmware ({self._complaint()}): give an ELF file and a chip that fit.")

    def _opened(self, connection: socket.socket) -> GdbStub:
        connection.settimeout(_START_SECONDS)
        try:
            return GdbStub(connection)
        except StubError:
            raise NotStartedError(
                f"QEMU does not start with this firmware ({self._complaint()}): give an ELF file and a chip that fit."
            ) from None

    def _listen(self) -> None:
        stream = self._process.stdout
        while stream is not None and (part := stream.read1(4096)):  # type: ignore[attr-defined]  # a pipe's buffered reader has it
            text, mark, _ = part.partition(bytes([END_OF_TRANSMISSION]))
            self.output += text
            if mark:
                self._ended = True
                # A core that stands still at an access ignores the word that stops it, so the word is sent until the core stops.
                while not self._halted.wait(0.1):
                    with contextlib.suppress(OSError):
                        self._connection.sendall(_BREAK)
                return

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()

    # -- the core

    def _registers(self, number: int) -> int:
        return self._stub.register(number)

    def _access(self) -> None:
        """Do the access that the core has stopped at, and move the core past it."""
        stub, place = self._stub, self._stub.register(PC)
        code, more = struct.unpack("<HH", stub.read(place, 4))
        found = thumb_access(code, more, self._registers)
        index = None if found is None else self._places.get(found.address & ~(REGISTER_BYTES - 1) & 0xFFFF_FFFF)
        if found is None or index is None:
            raise StoppedError(
                f"at {place:#010x} the firmware accesses the NPU's registers with {code:04x} {more:04x}, which cannot access them"
            )
        status = stub.register(XPSR)
        self._move(found, self.npus[index], found.address & (REGISTER_BYTES - 1))
        bus, npu = self._buses[index], self.npus[index]
        while npu.is_running and not bus.rises:
            npu.wait()
        if bus.rises:
            bus.rises = False
            self._pend(self._interrupts[index], place, found)
        if found.back is not None:
            stub.set_register(*found.back)
        stub.set_register(XPSR, advanced(status))
        stub.set_register(PC, place + found.size)

    def _move(self, access: ThumbAccess, npu: Device, offset: int) -> None:
        """Move a value between the core's registers and the NPU's. Bytes and halves are parts of their word."""
        shift, mask = 8 * (offset & 3), (1 << 8 * access.width) - 1
        for number, register in enumerate(access.registers):
            place = (offset & ~3) + 4 * number
            if access.load:
                value = npu.read(place) >> shift & mask
                if access.signed and value >> 8 * access.width - 1:
                    value -= mask + 1
                self._stub.set_register(register, value)
            else:
                value = self._stub.register(register) & mask
                word = value if access.width == 4 else npu.read(place) & ~(mask << shift) | value << shift
                npu.write(place, word)

    def _pend(self, interrupt: int, place: int, access: ThumbAccess) -> None:
        """Make an interrupt pending: the core executes its store again, with another address and value."""
        code, more = struct.unpack("<HH", self._stub.read(place, 4))
        base = code & 15 if access.size == 4 else code >> 3 & 7
        changed = (base, access.registers[0], PC, XPSR)
        if access.load or access.width != 4 or base == access.registers[0] or len(access.registers) != 1:
            raise StoppedError(
                f"at {place:#010x} the firmware starts the NPU by an instruction {code:04x} {more:04x} that is not a plain store"
            )
        kept = [self._stub.register(register) for register in changed]
        address = _PENDING + 4 * (interrupt // 32)
        self._stub.set_register(base, kept[0] + address - access.address)
        self._stub.set_register(access.registers[0], 1 << interrupt % 32)
        self._stub.step()
        for register, value in zip(changed, kept, strict=True):
            self._stub.set_register(register, value)

    @property
    def core_cycles(self) -> int | None:
        """Nothing: QEMU does not count the core's cycles."""
        return None

    def run(self, seconds: Fraction, spans: Sequence[tuple[int, int]] = ()) -> tuple[int | None, tuple[bytes, ...]]:
        """Run until the firmware ends, and return its exit code with the memory of ``spans`` (address and size).

        The exit code is None if the firmware has not ended within ``seconds`` of real time. StoppedError if the core cannot continue.
        InputError if QEMU has ended before the spans were read.
        """
        timer = threading.Timer(float(seconds), self._process.kill)
        timer.start()
        start = time.monotonic()
        self._connection.settimeout(None)
        try:
            for address in self._places:
                self._stub.watch(address, REGISTER_BYTES)
            while True:
                reason = self._stub.go()
                if self._ended:
                    self._halted.set()
                    return 0, tuple(self._stub.read(address, size) for address, size in spans)
                if b"watch" not in reason:
                    return self._ending(reason, spans)
                self._access()
        except StubError:
            if time.monotonic() - start >= seconds and not self._ended:
                return None, ()
            return (0, ()) if self._ended and not spans else self._ending(b"", spans)
        finally:
            self._halted.set()
            timer.cancel()
            self._open.close()
            self._reader.join(5)

    def _ending(self, reason: bytes, spans: Sequence[tuple[int, int]]) -> tuple[int, tuple[bytes, ...]]:
        """The exit code of firmware that ended QEMU with it; InputError if its memory is wanted."""
        code = self._exit_code(reason)
        if spans and not code:
            raise InputError("--dump reads memory once the firmware has ended, and semihosting ends QEMU too: end with byte 4 on the UART.")
        return code, ()

    def _exit_code(self, reason: bytes) -> int:
        """The exit code of the firmware, which is QEMU's; StoppedError if it has stopped for another reason."""
        if reason[:1] == b"W":
            return int(reason[1:3], 16)
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(2)
            if code >= 0:
                return code
        raise StoppedError(f"the emulator stops the firmware ({reason.decode('ascii', 'replace')[:60] or 'it has ended'})")
