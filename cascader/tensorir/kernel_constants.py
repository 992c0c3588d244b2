"""Constants that kernels read in addition to the network's: decoded weights, channel tables and look-up tables, in one block of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import CONSTANTS, LUT_SLOT, EthosuPart
from cascader.tensorir.numerics import INTERPOLATED_WORDS, clip_type
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import ActivationKind, ByteRange, DataType
from npu_model.shapes import round_up

_ALIGNMENT = 16
"""Alignment of every array in bytes: the widest vector that compilers load by default."""


class ConstantPool:
    """Arrays in one block of bytes; equal arrays are kept once."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._offsets: dict[bytes, int] = {}

    def add(self, values: NDArray[Any]) -> int:
        """Offset of the array's bytes in the block."""
        content = values.tobytes()
        if content not in self._offsets:
            self._content += bytes(round_up(len(self._content), _ALIGNMENT) - len(self._content))
            self._offsets[content] = len(self._content)
            self._content += content
        return self._offsets[content]

    def content(self) -> NDArray[np.uint8]:
        """The block; one byte if it is empty, because no tensor of the runtime may be empty."""
        return np.array(np.frombuffer(bytes(self._content) or b"\0", np.uint8))


def take(constants: bytes, span: ByteRange, what: str) -> bytes:
    """The bytes of a range of the network's constants; InputError if the range lies elsewhere."""
    if span.region != CONSTANTS or span.end > len(constants):
        raise InputError(
            f"{what} reads bytes {span.start} to {span.end} of region {span.region}, which are not constants: make the schedule anew."
        )
    return constants[span.start : span.end]


def lut_values(part: EthosuPart, constants: bytes, accelerator: Accelerator, what: str) -> NDArray[np.int64] | None:
    """The part's look-up table; None if it has none. A 16-bit table has all bases first, then all slopes."""
    operation, load = part.operation, part.lut
    if operation.activation.kind is not ActivationKind.LUT:
        return None
    if load is None:
        raise InputError(f"{what} uses a look-up table that it does not load: make the schedule anew.")
    index, ofm = clip_type(operation), operation.ofm.dtype
    wide = index == ofm == DataType(16, signed=True)
    if not wide and (index.bits != 8 or ofm.bits not in (8, 32)):
        raise InputError(f"{what} looks up {index} values for an {ofm} OFM: tables of 8 to 8, 8 to 32 and 16 to 16 bits are known.")
    entries = INTERPOLATED_WORDS if wide else 256
    word = "<u4" if wide else f"<{'i' if ofm.signed else 'u'}{ofm.bytes}"
    start = accelerator.lut_address + operation.activation.lut * LUT_SLOT - load.destination
    content = take(constants, load.source, what)[max(start, 0) :][: entries * np.dtype(word).itemsize]
    values = np.frombuffer(content, word)
    if start < 0 or len(values) != entries:
        raise InputError(f"{what} reads {entries} entries of a table of which {len(values)} are loaded: make the schedule anew.")
    if wide:
        values = np.concatenate([(values & 0xFFFF).astype("<u2").view("<i2"), (values >> 16).astype("<u2").view("<i2")])
    return values.astype(np.int64)
