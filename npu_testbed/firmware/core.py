"""A Cortex-M core on the Unicorn emulator: memory and registers, and exceptions as the architecture stacks them.

Unicorn runs instructions; it has no interrupt controller. Entry, return, tail-chaining and priorities are here, by the Armv8-M
Architecture Reference Manual (PushStack, ExceptionReturn). Security states are not: all code is one world.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

from npu_model.errors import InputError
from npu_testbed.firmware.semihosting import BREAKPOINT
from npu_testbed.firmware.system_space import SVCALL, SystemSpace

unicorn: Any = None
arm: Any = None
with suppress(ImportError):
    # A missing library is reported when a core is made: the rest of the package works without it.
    unicorn, arm = import_module("unicorn"), import_module("unicorn.arm_const")

_NOWHERE = 0xFFFF_FFFE
_EXC_RETURN = 0xFFFF_FFE1
_BASIC, _NO_FLOATS, _TO_THREAD, _PROCESS_STACK = 8, 1 << 4, 1 << 3, 1 << 2
_FLOATS_ACTIVE = 1 << 2
"""CONTROL.FPCA."""

_SPSEL = 1 << 1
"""CONTROL.SPSEL."""

_ALIGNED = 1 << 9
"""Bit of the stacked xPSR: a word was left unused above the frame."""

_SWI, _BREAK, _RETURNED, _RESETS = 2, 7, 8, (1, 18)
"""Numbers of Unicorn's (QEMU's) exceptions: SVC, BKPT, exception return, and undefined instructions or faults."""


class StoppedError(Exception):
    """The core cannot continue; the message says why and where."""


class EmulatedCore:
    """The processor. ``space`` holds the state of its exceptions; ``on_break`` serves semihosting calls (R0, R1 to R0)."""

    def __init__(self, cpu: str, space: SystemSpace) -> None:
        if unicorn is None:
            raise InputError("An emulated core needs the package unicorn: install the extra 'device' (pip install 'npu-testbed[device]').")
        self._uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self._uc.ctl_set_cpu_model(getattr(arm, f"UC_CPU_ARM_{cpu.upper().replace('-', '_')}"))
        self._space = space
        self.on_break: Callable[[int, int], int] = lambda _operation, _parameter: -1
        self._floats = tuple(getattr(arm, f"UC_ARM_REG_S{i}") for i in range(16))
        self._event: tuple[str, int] | None = None
        self._raised: BaseException | None = None
        self._complaint = ""
        self.sleeps = False
        self._pc = 0
        self._uc.hook_add(unicorn.UC_HOOK_INTR, self._interrupted)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._nothing_there)
        self._uc.hook_add(unicorn.UC_HOOK_INSN_INVALID, self._unknown)

    # -- set-up

    def map_buffer(self, address: int, buffer: Any, *, writable: bool) -> None:
        """Put a ctypes buffer into the address space."""
        rights = unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC | (unicorn.UC_PROT_WRITE if writable else 0)
        self._uc.mem_map_ptr(address, ctypes.sizeof(buffer), rights, ctypes.addressof(buffer))

    def map_registers(self, address: int, size: int, read: Callable[[int], int], write: Callable[[int, int], None]) -> None:
        """Put registers into the address space: functions of the word's offset. Bytes and halves are parts of their word."""

        def reading(_uc: Any, offset: int, length: int, _data: Any) -> int:
            shift = 8 * (offset & 3)
            return self._safely(lambda: read(offset & ~3) >> shift & (1 << 8 * length) - 1)

        def writing(_uc: Any, offset: int, length: int, value: int, _data: Any) -> None:
            shift, mask = 8 * (offset & 3), (1 << 8 * length) - 1

            def store() -> int:
                word = value if length == 4 else read(offset & ~3) & ~(mask << shift) & 0xFFFF_FFFF | (value & mask) << shift
                write(offset & ~3, word)
                return 0

            self._safely(store)

        self._uc.mmio_map(address, size, reading, None, writing, None)

    def sleep_at(self, addresses: Iterable[int]) -> None:
        """Stop after the WFI and WFE instructions at these addresses."""
        for address in addresses:
            self._uc.hook_add(unicorn.UC_HOOK_CODE, self._sleeping, None, address, address)

    def reset(self, stack: int, entry: int) -> None:
        """Begin as after a reset."""
        self._uc.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24)
        self._uc.reg_write(arm.UC_ARM_REG_SP, stack & ~3)
        self._uc.reg_write(arm.UC_ARM_REG_LR, 0xFFFF_FFFF)
        self._pc = entry & ~1

    # -- hooks

    def _safely(self, action: Callable[[], int]) -> int:
        """Run a hook's work. An exception ends the slice and is raised after it, because no exception can pass through Unicorn."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001  # raised again by run()
            self._raised = error
            self._uc.emu_stop()
            return 0

    def _interrupted(self, _uc: Any, number: int, _data: Any) -> None:
        self._event = ("interrupt", number)
        self._uc.emu_stop()

    def _sleeping(self, _uc: Any, address: int, size: int, _data: Any) -> None:
        self._event = ("sleep", address + size)
        self._uc.emu_stop()

    def _nothing_there(self, _uc: Any, kind: int, address: int, size: int, _value: int, _data: Any) -> bool:
        writes = kind in (unicorn.UC_MEM_WRITE_UNMAPPED, unicorn.UC_MEM_WRITE_PROT)
        fetches = kind in (unicorn.UC_MEM_FETCH_UNMAPPED, unicorn.UC_MEM_FETCH_PROT)
        verb = "writes" if writes else "runs code at" if fetches else "reads"
        self._complaint = f"{verb} {address:#010x} ({size} bytes), where the chip has no {'writable ' if writes else ''}memory"
        return False

    def _unknown(self, _uc: Any, _data: Any) -> bool:
        code = bytes(self._uc.mem_read(self._uc.reg_read(arm.UC_ARM_REG_PC) & ~1, 4))
        first, second = struct.unpack("<HH", code)
        self._complaint = f"meets the instruction {first:04x} {second:04x}, which the emulated core does not have (Helium is not emulated)"
        return False

    # -- running

    def run(self, instructions: int) -> None:
        """Execute at most ``instructions``; fewer if the core sleeps, an exception comes or a register asks for a stop.

        StoppedError if the core cannot continue. Errors of a register's function are raised here.
        """
        self._take_pending()
        self._event, self._raised, self._complaint = None, None, ""
        try:
            self._uc.emu_start(self._pc | 1, _NOWHERE, count=instructions)
        except unicorn.UcError as error:
            if self._raised is None:
                raise self._stopped(self._complaint or str(error)) from None
        if self._raised is not None:
            raise self._raised
        self._pc = self._uc.reg_read(arm.UC_ARM_REG_PC)
        self.sleeps = False
        if self._event is not None:
            self._serve(*self._event)

    def _stopped(self, why: str) -> StoppedError:
        return StoppedError(f"at {self._uc.reg_read(arm.UC_ARM_REG_PC):#010x} the firmware {why}")

    def _serve(self, kind: str, value: int) -> None:
        if kind == "sleep":
            self._pc, self.sleeps = value, True
        elif value == _RETURNED:
            self._return(self._pc | 1)
        elif value == _SWI:
            self._space.pend(SVCALL)
        elif value == _BREAK:
            self._break()
        else:
            raise self._stopped(self._complaint or f"has a fault (exception {value} of the emulator)")

    def _break(self) -> None:
        if int.from_bytes(self.memory(self._pc, 2), "little") != BREAKPOINT:
            raise self._stopped("runs into a breakpoint that no semihosting call is")
        registers = [self._uc.reg_read(one) for one in (arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1)]
        self._uc.reg_write(arm.UC_ARM_REG_R0, self.on_break(*registers) & 0xFFFF_FFFF)
        self._pc += 2

    def memory(self, address: int, length: int) -> bytes:
        """Bytes as the core sees them; StoppedError for an unmapped address."""
        try:
            return bytes(self._uc.mem_read(address, length))
        except unicorn.UcError:
            raise StoppedError(f"at {self._pc:#010x} the firmware names {address:#010x}, where no memory is") from None

    # -- exceptions

    def wakes(self) -> bool:
        """Whether a pending exception ends a sleep, taken or not (PRIMASK does not matter here)."""
        return self._space.next() is not None

    def _floor(self) -> int:
        masks = (arm.UC_ARM_REG_PRIMASK, arm.UC_ARM_REG_BASEPRI, arm.UC_ARM_REG_FAULTMASK)
        return self._space.running_priority(*(self._uc.reg_read(mask) for mask in masks))

    def _take_pending(self) -> None:
        number = self._space.next(self._floor())
        if number is not None:
            self._enter(number)

    def _enter(self, number: int) -> None:
        uc = self._uc
        control, status = uc.reg_read(arm.UC_ARM_REG_CONTROL), uc.reg_read(arm.UC_ARM_REG_XPSR)
        handler, floats = bool(status & 0x1FF), bool(control & _FLOATS_ACTIVE)
        uses_process_stack = not handler and bool(control & _SPSEL)
        words = [uc.reg_read(one) for one in self._stacked()] + [self._pc, 0]
        extra = [uc.reg_read(one) for one in self._floats] + [uc.reg_read(arm.UC_ARM_REG_FPSCR), 0] if floats else []
        stack = uc.reg_read(arm.UC_ARM_REG_SP)
        frame = stack - 4 * (_BASIC + len(extra))
        padding = frame & 4
        words[-1] = status & ~_ALIGNED | (_ALIGNED if padding else 0)
        frame -= padding
        self._put(frame, words + extra)
        uc.reg_write(arm.UC_ARM_REG_SP, frame)
        if floats:
            uc.reg_write(arm.UC_ARM_REG_CONTROL, control & ~_FLOATS_ACTIVE)
        kind = (0 if floats else _NO_FLOATS) | (0 if handler else _TO_THREAD) | (_PROCESS_STACK if uses_process_stack else 0)
        uc.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24 | number)
        uc.reg_write(arm.UC_ARM_REG_LR, _EXC_RETURN | kind)
        self._space.enter(number)
        self._pc = int.from_bytes(self.memory(self._space.vector_table + 4 * number, 4), "little") & ~1

    @staticmethod
    def _stacked() -> tuple[int, ...]:
        names = ("R0", "R1", "R2", "R3", "R12", "LR")
        return tuple(getattr(arm, f"UC_ARM_REG_{name}") for name in names)

    def _put(self, address: int, words: list[int]) -> None:
        try:
            self._uc.mem_write(address, struct.pack(f"<{len(words)}I", *(word & 0xFFFF_FFFF for word in words)))
        except unicorn.UcError:
            raise self._stopped(f"has its stack at {address:#010x}, where the chip has no memory") from None

    def _return(self, link: int) -> None:
        uc = self._uc
        self._space.leave(uc.reg_read(arm.UC_ARM_REG_XPSR) & 0x1FF)
        thread = bool(link & _TO_THREAD)
        control = uc.reg_read(arm.UC_ARM_REG_CONTROL) & ~(_FLOATS_ACTIVE | (_SPSEL if thread else 0))
        uc.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24 | (0 if thread else self._space.active[-1] if self._space.active else 0))
        uc.reg_write(arm.UC_ARM_REG_CONTROL, control | (_SPSEL if thread and link & _PROCESS_STACK else 0))
        frame, floats = uc.reg_read(arm.UC_ARM_REG_SP), not link & _NO_FLOATS
        count = _BASIC + (len(self._floats) + 2 if floats else 0)
        words = struct.unpack(f"<{count}I", self.memory(frame, 4 * count))
        for register, word in zip(self._stacked(), words, strict=False):
            uc.reg_write(register, word)
        if floats:
            for register, word in zip((*self._floats, arm.UC_ARM_REG_FPSCR), words[_BASIC:], strict=False):
                uc.reg_write(register, word)
            uc.reg_write(arm.UC_ARM_REG_CONTROL, uc.reg_read(arm.UC_ARM_REG_CONTROL) | _FLOATS_ACTIVE)
        status = words[7]
        uc.reg_write(arm.UC_ARM_REG_SP, frame + 4 * count + (4 if status & _ALIGNED else 0))
        uc.reg_write(arm.UC_ARM_REG_XPSR, status & ~_ALIGNED)
        self._pc = words[6] & ~1
