"""Programs as files of decoded operations, one JSON value a line, and the decoder's work."""

from __future__ import annotations

import gzip
import json
import lzma

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from npu_model.accelerator import accelerator
from npu_model.program import Binding, Control, DmaOperation, DmaWait, KernelOperation, KernelWait, Operation, Program, Region
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import StreamWork, stream_work

_KINDS: dict[str, type[Operation]] = {kind.__name__: kind for kind in (KernelOperation, DmaOperation, DmaWait, KernelWait, Control)}


class _Head(Struct, frozen=True):
    """The first line: what a Program is beside its operations."""

    accelerator: str
    regions: tuple[Region, ...]
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    names: tuple[str, ...]


def _given(value: object) -> object:
    """A value for JSON: a Struct is its fields that differ from their defaults."""
    if isinstance(value, Struct):
        pairs = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _given(one) for field, one in pairs if field.required or one != field.default}
    return [_given(one) for one in value] if isinstance(value, tuple) else value


def stored(program: Program) -> bytes:
    """A Program as a file, without its constants: a head, and a line for each operation with its kind and its words in the stream.

    Equal Programs have equal files, because no file has a name or time stamp.
    """
    regions = tuple(replace(region, content=b"") for region in program.regions)
    head = _Head(program.accelerator, regions, program.inputs, program.outputs, program.names)
    operations = zip(program.operations, program.words, strict=True)
    lines = [msgspec.json.encode(head), *(msgspec.json.encode([type(op).__name__, words, _given(op)]) for op, words in operations)]
    return lzma.compress(b"\n".join(lines), preset=lzma.PRESET_EXTREME)


def read_stored(data: bytes) -> Program:
    """The Program of a file that :func:`stored` made."""
    first, *lines = lzma.decompress(data).split(b"\n")
    head = msgspec.json.decode(first, type=_Head)
    rows = [msgspec.json.decode(line, type=tuple[str, int, msgspec.Raw]) for line in lines]
    operations = tuple(msgspec.json.decode(fields, type=_KINDS[kind]) for kind, _, fields in rows)
    return Program(head.accelerator, operations, tuple(words for _, words, _ in rows), head.regions, head.inputs, head.outputs, head.names)


def stored_work(program: Program) -> bytes:
    """The decoder's work for the weight streams of a Program, by the number of the operation, as a file."""
    work = stream_work(program, accelerator(program.accelerator))
    table = {index: [[core.bits, core.turns] for core in cores] for index, cores in work.items()}
    return gzip.compress(json.dumps(table, separators=(",", ":")).encode(), mtime=0)


def read_stored_work(data: bytes) -> StreamWork:
    """The work of a file that :func:`stored_work` made."""
    table = json.loads(gzip.decompress(data))
    return {int(index): tuple(DecoderWork(tuple(bits), tuple(turns)) for bits, turns in cores) for index, cores in table.items()}
