"""Programs as files: their command stream, the words that each operation took where it was measured, and all that surrounds them."""

from __future__ import annotations

import gzip

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.command_stream import decode_words, encode_operations
from npu_model.program import Binding, Program, Region


class _Stored(Struct, frozen=True):
    """A Program with its operations as the words of a command stream, 32 bits each, lowest byte first."""

    accelerator: str
    stream: bytes
    words: tuple[int, ...]
    regions: tuple[Region, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    names: tuple[str, ...]


def stored(program: Program) -> bytes:
    """A Program as a file, without its constants. Equal Programs have equal files, because no file has a name or time stamp."""
    words = encode_operations(program.operations, accelerator(program.accelerator).commands)[0]
    regions = tuple(replace(region, content=b"") for region in program.regions)
    file = _Stored(
        program.accelerator,
        np.array(words, "<u4").tobytes(),
        program.words,
        regions,
        program.inputs,
        program.outputs,
        program.names,
    )
    return gzip.compress(msgspec.msgpack.encode(file), mtime=0)


def read_stored(data: bytes) -> Program:
    """The Program of a file that :func:`stored` made."""
    file = msgspec.msgpack.decode(gzip.decompress(data), type=_Stored)
    words = tuple(np.frombuffer(file.stream, "<u4").tolist())
    operations, _ = decode_words(words, accelerator(file.accelerator).commands)
    return Program(file.accelerator, operations, file.words, file.regions, file.inputs, file.outputs, file.names)
