"""Checks that Arm's core driver makes before it runs a payload, by name. A file that fails one compiles and replays, but does not run.

Source: the driver in Arm's evaluation-kit firmware of 2026 (``ethosu_invoke_async``, ``ethosu_dev_verify_optimizer_config``), as
facts. The architecture's major version must be equal, its minor one not newer than the NPU's.
Buffers are used where they lie in the file, which is in memory at a multiple of 16 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.command_stream.payload import architecture, config_word, parse_payload
from npu_model.compiled.network import CUSTOM_CODE
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_model.tflite.schema import tflite

ALIGNMENT = 16
"""Alignment in bytes of the command stream's and the base addresses (core driver, MASK_16_BYTE_ALIGN)."""

_EQUAL_FIELDS = {"product": (28, 0xF), "macs_per_cc": (0, 0xF), "cmd_stream_version": (4, 0xF)}
"""Lowest bit and mask of the fields of the configuration word that must be equal."""

_CUSTOM_DMA = 27
"""Bit of the configuration word: an NPU without such a DMA refuses a payload that asks for it."""

_STREAM, _CONSTANTS = 0, 1


class DriverCheck(Struct, frozen=True):
    """A failed check: its name, and its finding as a clause."""

    name: str
    found: str


def stream_offset(data: bytes) -> int:
    """Byte of a payload at which its command stream begins; InputError if it is malformed."""
    return len(data) - 4 * _tail(data)


def _tail(data: bytes) -> int:
    """Words from the first of the command stream to the payload's end."""
    payload = parse_payload(data)
    words = struct.unpack(f"<{len(data) // 4}I", data)
    position = 1
    while words[position] & 0xFF != 2:  # the action of the command stream, which parse_payload has found
        position += 3 if words[position] & 0xFF == 1 else 1
    return len(words) - position - 1 if payload.words else 0


def payload_checks(data: bytes, address: int = 0) -> Iterator[DriverCheck]:
    """The checks that a payload at an address fails on its own accelerator; InputError if it is malformed."""
    payload = parse_payload(data)
    npu = accelerator(payload.accelerator).name
    own = config_word(npu)
    for field, (lowest, mask) in _EQUAL_FIELDS.items():
        theirs, ours = payload.config >> lowest & mask, own >> lowest & mask
        if theirs != ours:
            yield DriverCheck("optimiser configuration", f"{field} is {theirs} in the payload and {ours} in {npu}")
    if payload.config >> _CUSTOM_DMA & 1:
        yield DriverCheck("optimiser configuration", f"the payload asks for a custom DMA, which {npu} has not")
    major, minor = payload.identity >> 28, payload.identity >> 20 & 0xFF
    own_major, own_minor, _ = architecture(npu)
    if major != own_major or minor > own_minor:
        yield DriverCheck("architecture version", f"the payload is for {major}.{minor}, the NPU has {own_major}.{own_minor}")
    if not payload.words:
        yield DriverCheck("command stream length", "the command stream has 0 words")
    begin = address + stream_offset(data)
    if begin % ALIGNMENT:
        yield DriverCheck("command stream alignment", f"the command stream begins at byte {begin}, no multiple of {ALIGNMENT}")


def _place(model: Any, buffer: int) -> int:
    """Byte of the file at which a buffer's content begins."""
    table = model.Buffers(buffer)
    field = table._tab.Offset(4)  # noqa: SLF001  # the generated accessors give the content, not where it lies
    return int(table._tab.Vector(field)) if field else 0  # noqa: SLF001  # the same


def file_checks(data: bytes) -> Iterator[DriverCheck]:
    """The checks that a ``*_vela.tflite`` fails in memory: its payloads' checks, and its constants as a base address."""
    read, model = read_tflite(data), tflite.Model.GetRootAsModel(data, 0)
    graph = model.Subgraphs(0)
    for operator in read.operators:
        if operator.custom_code != CUSTOM_CODE:
            continue
        stream, constants = (graph.Tensors(operator.inputs[which]).Buffer() for which in (_STREAM, _CONSTANTS))
        yield from payload_checks(read.tensors[operator.inputs[_STREAM]].data, _place(model, stream))
        address = _place(model, constants)
        if address % ALIGNMENT:
            yield DriverCheck("base address alignment", f"the constants (region 0) lie at byte {address}, no multiple of {ALIGNMENT}")


def require_driver(checks: Iterator[DriverCheck], name: str) -> None:
    """InputError, naming the check, at the first one that fails."""
    for check in checks:
        raise InputError(f"{name} fails the core driver's check of the {check.name}: {check.found}; compile it again.")
