"""Semihosting: requests of firmware to a debugger, through BKPT 0xAB. Console output and the exit are served; there are no files.

Source: Arm, Semihosting for AArch32 and AArch64.
"""

from __future__ import annotations

from collections.abc import Callable

BREAKPOINT = 0xBEAB
"""The instruction."""

_OPEN, _CLOSE, _WRITEC, _WRITE0, _WRITE, _READ, _ISTTY, _SEEK, _FLEN = 1, 2, 3, 4, 5, 6, 9, 10, 12
_CLOCK, _TIME, _ERRNO, _HEAPINFO, _EXIT, _EXIT_EXTENDED = 0x10, 0x11, 0x13, 0x16, 0x18, 0x20
_STOPPED_BY_EXIT = 0x20026
_CONSOLE = 1
_FAILED = 0xFFFF_FFFF
_MOST_TEXT = 1 << 16
_DONE = (_CLOSE, _ISTTY, _SEEK, _FLEN, _CLOCK, _TIME, _ERRNO, _HEAPINFO)
"""Operations whose answer is 0, because they need no work and no message."""

Memory = Callable[[int, int], bytes]


class Exit(Exception):  # noqa: N818  # an end, no error
    """The firmware ends, with its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Semihosting:
    """The debugger's side. ``read`` returns memory; ``put`` takes each byte of output."""

    def __init__(self, read: Memory, put: Callable[[int], None]) -> None:
        self._read, self._put = read, put

    def _word(self, address: int) -> int:
        return int.from_bytes(self._read(address, 4), "little")

    def call(self, operation: int, parameter: int) -> int:
        """Serve an operation (R0, R1) and return R0; Exit if the firmware ends."""
        if operation in (_EXIT, _EXIT_EXTENDED):
            raise Exit(self._code(operation, parameter))
        if operation in (_WRITEC, _WRITE0):
            self._put_text(parameter, 1 if operation == _WRITEC else _MOST_TEXT)
            return 0
        if operation == _WRITE:
            length = min(self._word(parameter + 8), _MOST_TEXT)
            for byte in self._read(self._word(parameter + 4), length):
                self._put(byte)
            return self._word(parameter + 8) - length
        if operation == _OPEN:
            return _CONSOLE if self._read(self._word(parameter), 3) == b":tt" else _FAILED
        if operation == _READ:
            return self._word(parameter + 8)
        return 0 if operation in _DONE else _FAILED

    def _code(self, operation: int, parameter: int) -> int:
        """The exit code: the one of the extended form, else 0 for a normal end."""
        if operation == _EXIT:
            return 0 if parameter == _STOPPED_BY_EXIT else 1
        return self._word(parameter + 4) if self._word(parameter) == _STOPPED_BY_EXIT else 1

    def _put_text(self, address: int, most: int) -> None:
        """Write bytes up to a zero, or a number of bytes."""
        for place in range(address, address + most):
            byte = self._read(place, 1)[0]
            if not byte and most > 1:
                break
            self._put(byte)
