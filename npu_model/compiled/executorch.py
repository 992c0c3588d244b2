"""Ethos-U programs inside an ExecuTorch ``.pte``: the ``vela_bin_stream`` that its Arm backend packs for each delegate.

A stream is blocks: a name of 16 bytes, the length (32 bits), a byte that says whether the data lies elsewhere, 11 bytes reserved, then the
data, padded to 16. Source: ExecuTorch 1.5.1, ``backends/arm/arm_vela.py``. Where a ``.pte`` keeps the delegates' data has changed
between versions, so streams are found by their first block's name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.command_stream import decode_words, parse_payload
from npu_model.compiled.method_plan import method_plan
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.payload_network import in_turn
from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.program import Binding, DataType, Program, Region, RegionRole
from npu_model.program.check import check_program
from npu_model.program.extents import extents_of
from npu_model.program.region_numbers import ARENA, CONSTANTS
from npu_model.shapes import round_up

MAGIC = b"vela_bin_stream\0"
RUNTIME = "EXECUTORCH"
"""Name of the step that passes tensors from one delegate to the next: kernels on the CPU, or a copy."""

_END = "vela_end_stream"
_NAME, _HEADER, _ALIGNMENT = 16, 32, 16
_BLOCKS = ("cmd_data", "weight_data", "scratch_size", "inputs", "outputs")
_MOST_BLOCKS, _MOST_STREAMS, _MOST_TENSORS = 64, 1024, 1024
_DIMENSIONS = 6
_TENSOR = struct.Struct(f"<{_DIMENSIONS}iiii")
"""Shape, bytes of an element, offset, region."""

_RANK = 4
"""Number of last dimensions that are kept. The earlier dimensions are 1 for most tensors."""


def is_executorch(data: bytes) -> bool:
    """Whether the bytes hold a stream: a ``.pte`` with an Ethos-U delegate, or the stream by itself."""
    return MAGIC in data


def _fault(what: str) -> InputError:
    return InputError(f"A vela_bin_stream {what}: the file is damaged, or of an unknown version of ExecuTorch.")


def _blocks(data: bytes, start: int) -> dict[str, bytes]:
    """The blocks of the stream at ``start`` by name."""
    found: dict[str, bytes] = {}
    position = start
    for _ in range(_MOST_BLOCKS):
        if position + _HEADER > len(data):
            raise _fault("has no end")
        name = data[position : position + _NAME].rstrip(b"\0").decode("ascii", "replace")
        (length,) = struct.unpack_from("<I", data, position + _NAME)
        elsewhere, position = data[position + _NAME + 4], position + _HEADER
        if name == _END:
            return found
        if elsewhere:
            raise InputError(
                f"Block {printable(name, 40)!r} of a vela_bin_stream is kept outside it: compile without a placement for that block."
            )
        if position + length > len(data):
            raise _fault(f"claims {length} bytes of block {printable(name, 40)!r} and {len(data) - position} follow")
        found[name] = data[position : position + length]
        position += round_up(length, _ALIGNMENT)
    raise _fault(f"has more than {_MOST_BLOCKS} blocks")


def _tensors(block: bytes, what: str, number: int) -> tuple[Binding, ...]:
    """The inputs or outputs of stream ``number``. Their signedness is not given."""
    count = struct.unpack_from("<i", block)[0] if len(block) >= 4 else -1
    if not 0 <= count <= _MOST_TENSORS or len(block) < 4 + count * _TENSOR.size:
        raise _fault(f"claims {count} {what}s in {len(block)} bytes")
    found = []
    for index, (*shape, size, offset, region) in enumerate(_TENSOR.iter_unpack(block[4 : 4 + count * _TENSOR.size])):
        if size not in (1, 2, 4) or region != ARENA or offset < 0 or min(shape) < 1:
            raise _fault(f"has an {what} of shape {shape} with elements of {size} bytes at {offset} of region {region}")
        ones = next((axis for axis, extent in enumerate(shape[: _DIMENSIONS - _RANK]) if extent != 1), _DIMENSIONS - _RANK)
        found.append(Binding(f"{what}_{number}_{index}", region, offset, tuple(shape[ones:]), DataType(8 * size, signed=True)))
    return tuple(found)


def _delegate(blocks: dict[str, bytes], number: int) -> CompiledNetwork:
    """The network of one stream."""
    missing = [name for name in _BLOCKS if name not in blocks]
    if missing:
        raise _fault(f"lacks {', '.join(missing)}")
    payload = parse_payload(blocks["cmd_data"])
    operations, words = decode_words(payload.words, accelerator(payload.accelerator).commands)
    if len(blocks["scratch_size"]) < 4:
        raise _fault(f"has a scratch_size of {len(blocks['scratch_size'])} bytes")
    (arena,) = struct.unpack_from("<I", blocks["scratch_size"])
    constants, scratch = blocks["weight_data"], ARENA + 1
    program = Program(
        accelerator=payload.accelerator,
        operations=operations,
        words=words,
        regions=(
            Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants),
            Region(ARENA, RegionRole.ARENA, arena),
            # The runtime provides the fast scratch; the stream shows only which bytes are used.
            Region(scratch, RegionRole.FAST_SCRATCH, round_up(extents_of(operations).get(scratch, 0), _ALIGNMENT)),
        ),
        inputs=_tensors(blocks["inputs"], "input", number),
        outputs=_tensors(blocks["outputs"], "output", number),
    )
    check_program(program, accelerator(program.accelerator))
    return CompiledNetwork((program,), arena, program.inputs, program.outputs)


def _starts(data: bytes) -> Iterator[int]:
    position = data.find(MAGIC)
    while position >= 0:
        yield position
        position = data.find(MAGIC, position + len(MAGIC))


def executorch_payloads(data: bytes) -> Iterator[bytes]:
    """The driver payloads of the streams in the bytes; InputError if a stream is damaged."""
    for _, start in zip(range(_MOST_STREAMS), _starts(data), strict=False):
        yield _blocks(data, start).get("cmd_data", b"")


def read_executorch(data: bytes) -> CompiledNetwork:
    """The Programs of every stream in the bytes, in the order in which they lie there, as the steps of one network.

    The arena is the largest delegate's, because each delegate has the scratch while it runs. Between two delegates, one operator
    :data:`RUNTIME` on the CPU passes tensors on. InputError if a stream is damaged, or for an NPU that :func:`accelerator` does not know.
    """
    starts = [start for _, start in zip(range(_MOST_STREAMS), _starts(data), strict=False)]
    if not starts:
        raise InputError("The file holds no vela_bin_stream: delegate a part of the network to the Ethos-U backend.")
    delegates = [_delegate(_blocks(data, start), number) for number, start in enumerate(starts)]
    return replace(in_turn(delegates, RUNTIME), method=method_plan(data))
