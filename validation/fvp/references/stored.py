"""Programs as files: their command stream, the words that each operation took where it was measured, and the decoder's work."""

from __future__ import annotations

import gzip
import json

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.command_stream import decode_words, encode_operations
from npu_model.program import Binding, Program, Region
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import StreamWork, stream_work


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


def stored_work(program: Program) -> bytes:
    """The decoder's work for the weight streams of a Program, by the number of the operation, as a file."""
    work = stream_work(program, accelerator(program.accelerator))
    table = {index: [[core.bits, core.turns] for core in cores] for index, cores in work.items()}
    return gzip.compress(json.dumps(table, separators=(",", ":")).encode(), mtime=0)


def read_stored_work(data: bytes) -> StreamWork:
    """The work of a file that :func:`stored_work` made."""
    table = json.loads(gzip.decompress(data))
    return {int(index): tuple(DecoderWork(tuple(bits), tuple(turns)) for bits, turns in cores) for index, cores in table.items()}
