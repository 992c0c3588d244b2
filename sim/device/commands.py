"""The command stream as the NPU meets it in memory: operations up to the end, or up to a command that stops the NPU."""

from __future__ import annotations

import struct
from collections.abc import Callable

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.command_stream import decoded
from npu_model.command_stream.decode import MAX_STREAM_BYTES
from npu_model.errors import InputError
from npu_model.program import Control, ControlKind, KernelOperation, Operation, Program, Region, RegionRole
from npu_model.program.check import ADDRESS_LIMIT, operation_violations
from sim.device.bus import BusError

REGIONS = 8
"""Base-pointer regions."""

FETCH = 0
"""The DMA channel of the command fetch (core driver, PMCAXI_CHAN)."""

_CHUNK = 1024
_WORD = 4


class Commands(Struct, frozen=True):
    """The operations of a stream with the words of each, and the reason why the stream ends.

    ``complaint`` is empty after NPU_OP_STOP or the end of the queue, else the sentence of a parse error. With a ``channel``, the stream
    ends in a bus abort of that channel in ``region`` (-1: the queue itself).
    """

    operations: tuple[Operation, ...]
    words: tuple[int, ...]
    complaint: str = ""
    channel: int | None = None
    region: int = -1


def _part(read: Callable[[int, int], bytes], address: int, length: int) -> tuple[bytes, str]:
    """Some bytes, or the fault if they are missing."""
    try:
        return read(address, length), ""
    except BusError as error:
        return b"", str(error)


def _fetched(read: Callable[[int, int], bytes], base: int, size: int) -> tuple[bytes, str]:
    """The queue's bytes as far as memory has them, and the fault after them."""
    found = bytearray()
    step = _CHUNK
    while len(found) < size:
        part, fault = _part(read, base + len(found), min(step, size - len(found)))
        if fault and step == _WORD:
            return bytes(found), fault
        step = _WORD if fault else step
        found += part
    return bytes(found), ""


def anywhere(accelerator_name: str) -> Program:
    """A Program without operations whose regions are as large as the address space, to check the rules other than bounds."""
    return Program(accelerator_name, (), (), tuple(Region(i, RegionRole.UNUSED, ADDRESS_LIMIT) for i in range(REGIONS)))


def _checked(op: Operation, index: int, nowhere: Program, device: Accelerator) -> None:
    if isinstance(op, KernelOperation) and len(op.weights) > device.cores:
        raise InputError(f"Operation {index} runs on {len(op.weights)} cores: the NPU has {device.cores}; the stream is for another one.")
    for violation in operation_violations(nowhere, op, device):
        raise InputError(f"Operation {index} {violation}: the stream is damaged or for another NPU.")


def commands(read: Callable[[int, int], bytes], base: int, size: int, device: Accelerator) -> Commands:
    """Fetch and decode the queue of ``size`` bytes at ``base``; ``read`` is the bus's."""
    if size >= MAX_STREAM_BYTES or size % _WORD:
        return Commands((), (), f"QSIZE is {size}: a multiple of 4 below {MAX_STREAM_BYTES} is needed.")
    content, abort = _fetched(read, base, size)
    words = struct.unpack(f"<{len(content) // _WORD}I", content[: len(content) // _WORD * _WORD])
    operations: list[Operation] = []
    counts: list[int] = []
    nowhere = anywhere(device.name)
    try:
        for op, count in decoded(words):
            _checked(op, len(operations), nowhere, device)
            operations.append(op)
            counts.append(count)
            if isinstance(op, Control) and op.kind is ControlKind.STOP:
                return Commands(tuple(operations), tuple(counts))
    except InputError as error:
        return Commands(tuple(operations), tuple(counts), abort or str(error), FETCH if abort else None)
    return Commands(tuple(operations), tuple(counts), abort, FETCH if abort else None)
