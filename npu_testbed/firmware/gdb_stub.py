"""The part of GDB's remote protocol that a device needs: registers, memory, watchpoints, a step and a run.

Source: Debugging with GDB, appendix "GDB Remote Serial Protocol"; core registers of an M-profile target by QEMU's target description.
"""

from __future__ import annotations

import socket
import struct

_MOST = 1024
"""Bytes of memory in a message, which has them in hexadecimal."""

PC, XPSR = 15, 25


class StubError(Exception):
    """The target refuses something, or has gone."""


class GdbStub:
    """A connection to a target that stands still until :meth:`go` or :meth:`step` runs it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = b""
        # A target that was asked for its description sends registers one by one.
        self.ask(b"qXfer:features:read:target.xml:0,ffb")

    def _send(self, text: bytes) -> None:
        self._connection.sendall(b"$%s#%02x" % (text, sum(text) & 0xFF))

    def _receive(self) -> bytes:
        while True:
            start = self._pending.find(b"$")
            end = self._pending.find(b"#", start)
            if 0 <= start < end and len(self._pending) >= end + 3:
                found, self._pending = self._pending[start + 1 : end], self._pending[end + 3 :]
                self._connection.sendall(b"+")
                return found
            part = self._connection.recv(1 << 16)
            if not part:
                raise StubError("the emulator has ended")
            self._pending += part

    def ask(self, text: bytes) -> bytes:
        """Send a message and return the answer; StubError if the target refuses or has gone."""
        try:
            self._send(text)
            found = self._receive()
        except OSError as error:
            raise StubError(f"the emulator has ended ({error})") from None
        if found[:1] == b"E" and len(found) == 3:
            raise StubError(f"the emulator refuses {text[:40].decode('ascii', 'replace')}")
        return found

    def read(self, address: int, length: int) -> bytes:
        """Memory as the core sees it; StubError for an address without memory."""
        parts = []
        for start in range(address, address + length, _MOST):
            count = min(_MOST, address + length - start)
            parts.append(bytes.fromhex(self.ask(b"m%x,%x" % (start, count)).decode("ascii")))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write memory; StubError for an address without memory."""
        for start in range(0, len(data), _MOST):
            part = data[start : start + _MOST]
            self.ask(b"M%x,%x:%s" % (address + start, len(part), part.hex().encode("ascii")))

    def register(self, number: int) -> int:
        """A core register by its number: 0 to 15, or XPSR."""
        return int(struct.unpack("<I", bytes.fromhex(self.ask(b"p%x" % number).decode("ascii")))[0])

    def set_register(self, number: int, value: int) -> None:
        """Set a core register."""
        self.ask(b"P%x=%s" % (number, struct.pack("<I", value & 0xFFFF_FFFF).hex().encode("ascii")))

    def watch(self, address: int, length: int) -> None:
        """Stop before every access to these addresses."""
        self.ask(b"Z4,%x,%x" % (address, length))

    def step(self) -> None:
        """Execute one instruction, with interrupts held back."""
        self.ask(b"s")

    def go(self) -> bytes:
        """Run to the next stop, and return its reason."""
        return self.ask(b"c")
