"""A device for another process: one pipe brings requests; the other carries answers and the NPU's own requests.

Every message is 16 bytes, little endian: kind and value of 32 bits each, an argument of 64; bytes may follow. docs/firmware.md has the
list. While it serves a request, the device asks the other side for memory. It has no memory of its own.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim.device import BusError, Device

_MESSAGE = struct.Struct("<IIQ")
READ, WRITE, ADVANCE, WAIT, CLOSE = 1, 2, 3, 4, 5
FETCH, STORE, INTERRUPT, DONE, REFUSED = 16, 17, 18, 19, 20
DATA, STORED = 32, 33
_MISSING = (1 << 32) - 1
_MOST_CYCLES = 1 << 48


class ClosedError(Exception):
    """The other side has gone."""


class Pipes:
    """Messages over two file descriptors."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def take(self, count: int) -> bytes:
        """So many bytes; ClosedError if there are fewer."""
        found = bytearray()
        while len(found) < count:
            part = os.read(self._incoming, min(count - len(found), 1 << 20))
            if not part:
                raise ClosedError
            found += part
        return bytes(found)

    def receive(self) -> tuple[int, int, int]:
        """Return kind, value and argument of the next message."""
        kind, value, argument = _MESSAGE.unpack(self.take(_MESSAGE.size))
        return kind, value, argument

    def send(self, kind: int, value: int = 0, argument: int = 0, content: bytes = b"") -> None:
        """Send a message; ClosedError if the other side has closed."""
        data = memoryview(_MESSAGE.pack(kind, value, argument) + content)
        try:
            while data:
                data = data[os.write(self._outgoing, data) :]
        except BrokenPipeError:
            raise ClosedError from None


class RemoteBus:
    """A bus whose memories are the other side's."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    def _answer(self, kind: int) -> int:
        found, value, _ = self._pipes.receive()
        if found != kind:
            raise InputError(f"Message {found} came where {kind} answers the device: see the protocol in docs/firmware.md.")
        return value

    def read(self, address: int, length: int) -> bytes:
        """Bytes of the other side's memory; BusError for an address without memory."""
        if length >= _MISSING:
            raise BusError(f"no memory has the {length} bytes from {address:#x} on")
        self._pipes.send(FETCH, length, address)
        if self._answer(DATA) == _MISSING:
            raise BusError(f"no memory has the {length} bytes from {address:#x} on")
        return self._pipes.take(length)

    def write(self, address: int, data: bytes) -> None:
        """Store bytes there; BusError if they cannot be stored."""
        self._pipes.send(STORE, len(data), address, data)
        if self._answer(STORED):
            raise BusError(f"no memory takes the {len(data)} bytes from {address:#x} on")

    def interrupt(self, level: bool) -> None:  # noqa: FBT001  # see Bus
        """Send the level of the interrupt line."""
        self._pipes.send(INTERRUPT, int(level))


def _serve(device: Device, kind: int, value: int, argument: int) -> int:
    """Carry out a request and return the value of its answer."""
    if kind == READ:
        device.advance(value)
        return device.read(argument)
    if kind == WRITE:
        device.write(argument & _MISSING, value)
        device.advance(argument >> 32)
    elif kind == ADVANCE:
        device.advance(min(argument, _MOST_CYCLES))
    elif kind == WAIT:
        device.wait(min(argument, _MOST_CYCLES))
    else:
        raise InputError(f"Message {kind} is not a request: {READ} to {CLOSE} are; see the protocol in docs/firmware.md.")
    return 0


def _answer(pipes: Pipes, device: Device, request: tuple[int, int, int]) -> None:
    try:
        value = _serve(device, *request)
    except InputError as error:
        text = str(error).encode()
        pipes.send(REFUSED, len(text), 0, text)
    else:
        pipes.send(DONE, value, device.cycle)


def serve(
    accelerator: str, memory_system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, incoming: int = 0, outgoing: int = 1
) -> None:
    """Serve a device over two file descriptors until the other side closes it or exits."""
    pipes = Pipes(incoming, outgoing)
    device = Device(accelerator, memory_system, RemoteBus(pipes), timing)
    try:
        while (request := pipes.receive())[0] != CLOSE:
            _answer(pipes, device, request)
    except ClosedError:
        return


def host_files() -> dict[str, bytes]:
    """The header and the source of the C library, by file name."""
    folder = Path(__file__).parent / "host"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".c", ".h")}
