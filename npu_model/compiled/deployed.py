"""Deployed networks: driver payloads with their constants, in a C source or in a raw ``.npz``, as firmware and ExecuTorch carry them.

It reads the C sources of Edge Impulse's EON compiler, of Renesas' RUHMI and of ``export --format c``, and the ``.npz`` of ``--output-format
raw``. Most C sources do not name inputs and outputs. Inputs are then the bytes that the stream reads before it writes them. Outputs are the
bytes that it writes and does not read again. Several streams run one after the other; the application passes tensors on between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

from npu_model.command_stream import COP_FORMATS
from npu_model.compiled.c_array import named_arrays
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.payload_network import constants_read, in_turn, payload_network
from npu_model.compiled.raw_npz import is_raw, raw_payload, read_raw
from npu_model.errors import InputError
from npu_model.program import Binding, DataType, Quantisation
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import ARENA
from npu_model.shapes import round_up

_MAGIC = tuple(name.encode("ascii") for name in COP_FORMATS)
_MOST_BYTES = 1 << 28

_JOB = re.compile(rb"\{\s*(\w+),\s*\d+u?,\s*(\w+),\s*\d+u?[,\s}]")
_TENSOR = re.compile(
    rb'\{"((?:[^"\\]|\\.){0,4000})",\s*(\d{1,12})u,\s*\d{1,12}u,\s*(\d{1,2})u,\s*([01])u,\s*(\d)u,\s*\{([\d, ]{0,100})\},'
    rb"\s*([-+.\de]{1,30})f,\s*(-?\d{1,10})(?:,\s*(\d)u)?\}"
)
_OCTAL = re.compile(rb"\\([0-7]{3})")


def has_payload(arrays: Sequence[tuple[str, bytes]]) -> bool:
    """Whether one of a C source's arrays is a driver payload."""
    return any(content.startswith(_MAGIC) for _, content in arrays)


def is_deployed(data: bytes) -> bool:
    """Whether the bytes hold a deployed network: a raw ``.npz``, or a C source with a driver payload."""
    return is_raw(data) or has_payload(list(named_arrays(data)))


def deployed_payloads(data: bytes) -> Iterator[bytes]:
    """The driver payloads in the bytes, in order."""
    if is_raw(data):
        yield raw_payload(data)
    else:
        yield from (content for _, content in named_arrays(data) if content.startswith(_MAGIC))


def read_deployed(data: bytes) -> CompiledNetwork:
    """The network of a deployed form; InputError if it is damaged or incomplete."""
    return read_raw(data) if is_raw(data) else _read_source(data)


def _constants_of(name: str, at: int, arrays: Sequence[tuple[str, bytes]], jobs: dict[str, str]) -> bytes:
    """The constants of a payload: the array that a table of jobs names, or the one of the same stem.

    Otherwise the array with the length that the stream reads, or a longer one: the next array, or an earlier one.
    """
    named = dict(arrays)
    stem = _stem(name)
    for other in (jobs.get(name, ""), f"{stem}_model_data", f"{stem}_weights"):
        if other in named:
            return named[other]
    plain = [(place, content) for place, (_, content) in enumerate(arrays) if not content.startswith(_MAGIC)]
    after = [content for place, content in plain if place > at]
    before = [content for place, content in reversed(plain) if place < at]
    found = [*after, *before]
    if len(found) < 2:
        return found[0] if found else b""
    read = constants_read(arrays[at][1])
    exact = (one for one in found if len(one) in (read, round_up(read, ALIGNMENT)))
    enough = (one for one in found if len(one) >= read)
    return next(exact, next(enough, found[0]))


def stream_names(data: bytes) -> tuple[str, ...]:
    """The names of a deployed form's command streams, in order; none for a raw file, which has one stream without a name."""
    if is_raw(data):
        return ()
    return tuple(_stem(name) for name, content in named_arrays(data) if content.startswith(_MAGIC))


def _stem(name: str) -> str:
    return name.removesuffix("_command_stream")


def _read_source(data: bytes) -> CompiledNetwork:
    """The network of a C source; InputError if two of its streams have one name, as in branches of ``#if``."""
    arrays = list(named_arrays(data))
    jobs = {payload.decode("ascii", "replace"): constants.decode("ascii", "replace") for payload, constants in _JOB.findall(data)}
    payloads = {at: (name, content) for at, (name, content) in enumerate(arrays) if content.startswith(_MAGIC)}
    names = [name for name, _ in payloads.values()]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"The C source defines {twice[:60]!r} more than once: keep one definition, such as one branch of an #if.")
    parts = [(content, _constants_of(name, at, arrays, jobs)) for at, (name, content) in payloads.items()]
    ends = {end: list(_tensors(data, end)) for end in (b"_inputs[", b"_outputs[")}
    if len(parts) < 2 or ends[b"_inputs["] or ends[b"_outputs["]:
        return payload_network(parts, ends[b"_inputs["], ends[b"_outputs["], 0)
    return in_turn([payload_network([part], (), (), 0, f"{_stem(name)}_") for name, part in zip(names, parts, strict=True)])


def _tensors(data: bytes, end: bytes) -> Iterator[Binding]:
    """The arrays that a source of ``export --format c`` describes after its table's name; empty for other sources."""
    start = data.find(end)
    if start < 0:
        return
    stop = data.find(b"\n};", start)
    for found in _TENSOR.finditer(data, start, len(data) if stop < 0 else stop + 1):
        text, offset, bits, signed, rank, shape, scale, zero, region = found.groups()
        name = _OCTAL.sub(lambda byte: bytes((int(byte[1], 8) & 0xFF,)), text).decode("utf-8", "replace")
        extents = tuple(int(extent) for extent in shape.split(b",") if extent.strip())[: int(rank)]
        try:
            quantisation = Quantisation(float(scale), int(zero)) if float(scale) else None
        except ValueError:
            raise InputError(f"The C source describes {name[:60]!r} with the scale {scale.decode('ascii')}: give a number.") from None
        if prod(extents) > _MOST_BYTES or int(offset) > _MOST_BYTES:
            raise InputError(f"The C source describes {name[:60]!r} at byte {int(offset)} in the shape {extents}: the file is damaged.")
        yield Binding(
            name, ARENA if region is None else int(region), int(offset), extents, DataType(int(bits), signed=signed == b"1"), quantisation
        )
