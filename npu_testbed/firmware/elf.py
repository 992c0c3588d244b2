"""ELF files for 32-bit little-endian Arm: the bytes that a loader puts into memory, and the entry point."""

from __future__ import annotations

import struct

from msgspec import Struct

from npu_model.errors import InputError

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SEGMENT = struct.Struct("<IIIIIIII")
_MAGIC = b"\x7fELF\x01\x01"
_ARM, _LOAD, _EXECUTABLE = 40, 1, 1
_MOST_SEGMENTS = 1024


class ElfSegment(Struct, frozen=True):
    """Bytes at a (load) address, whether they are code, and how many zero bytes follow at the address that the program uses."""

    address: int
    content: bytes
    executable: bool
    zeros_from: int
    zeros: int


class Firmware(Struct, frozen=True):
    """The segments of a file, in order, and its entry point."""

    entry: int
    segments: tuple[ElfSegment, ...]


def _segment(data: bytes, at: int) -> ElfSegment | None:
    kind, offset, virtual, physical, in_file, in_memory, flags, _ = _SEGMENT.unpack_from(data, at)
    if kind != _LOAD or not in_memory:
        return None
    if offset + in_file > len(data):
        raise InputError(f"The ELF file has {len(data)} bytes: a segment ends at byte {offset + in_file}; the file is cut off.")
    zeros = max(0, in_memory - in_file) if virtual == physical or not in_file else 0
    return ElfSegment(
        physical if in_file else virtual, data[offset : offset + in_file], bool(flags & _EXECUTABLE), virtual + in_file, zeros
    )


def read_elf(data: bytes) -> Firmware:
    """The firmware in an ELF file; InputError if the file is not for 32-bit little-endian Arm, or is cut off.

    Initialised data lies at its load address, from where start-up code copies it, as it does on a board.
    """
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise InputError("The firmware is not a 32-bit little-endian ELF file: give the linker's output (.elf, .axf).")
    _, _, machine, _, entry, first, _, _, _, size, count, *_ = _HEADER.unpack_from(data)
    if machine != _ARM:
        raise InputError(f"The ELF file is for machine {machine}: only 40 (Arm) is emulated; link for a Cortex-M.")
    if size != _SEGMENT.size or not 0 < count <= _MOST_SEGMENTS or first + count * size > len(data):
        raise InputError(f"The ELF file has {count} program headers of {size} bytes at byte {first}: nothing can be loaded; link it again.")
    found = [_segment(data, first + index * size) for index in range(count)]
    segments = tuple(segment for segment in found if segment is not None)
    if not segments:
        raise InputError("The ELF file has no segment to load: link it to an executable, not to an object file.")
    return Firmware(entry, segments)
