"""The reference records: FVP counters, memory sweeps, single operators, and the Programs that were measured.

The figures are facts published by others; every record names its source. The Programs are decoded operations without
constants. The timing of a replay depends on the weight streams only through the decoder's work,
which is stored with each Program.

A new point is a row of a file, the Program of its stream (:func:`stored`) and the decoder's work (:func:`stored_work`). A Program is a
file of decoded operations, one JSON value a line.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
from functools import cache
from importlib import resources
from typing import TypeVar

import msgspec
from msgspec import Struct, convert
from msgspec.structs import fields, replace

from npu_model.accelerator import accelerator
from npu_model.program import Binding, Control, DmaOperation, DmaWait, KernelOperation, KernelWait, Operation, Padding, Program, Region
from npu_model.shapes import Shape3D
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


T = TypeVar("T", bound=Struct)

POINTS, SWEEPS, OPERATORS, WHOLE_RUNS = "fvp_points.csv", "fvp_sweeps.csv", "single_operators.csv", "fvp_whole_runs.csv"
U65_POINTS, U85_POINTS, OLD_POINTS = "fvp_u65_points.csv", "fvp_u85_points.csv", "fvp_old_points.csv"


class MeasuredBeats(Struct, frozen=True):
    """Data beats (of 8 bytes, 16 on the U65 and U85) that the FVP's PMU counted: AXI0 reads, AXI0 writes, AXI1 reads.

    On the U85 AXI0 means all ports to the SRAM, and AXI1 all ports to the external memory, whose writes are counted, too.
    """

    axi0_read: int
    axi0_write: int
    axi1_read: int
    axi1_write: int | None = None


class ReferencePoint(Struct, frozen=True):
    """One measured inference: ``active`` is NPU ACTIVE, ``total`` NPU TOTAL (on a grid of 1000 cycles), in NPU cycles.

    ``adapters`` says whether the timing adapters were on, whose profile :func:`npu_model.memory.ports.measured_with` names. ``beats`` is
    None if none were published. ``vela_cycles`` is the estimate of the Vela that compiled the network (0: unknown); ``stream_sha256`` is
    the SHA-256 of the compiled .tflite.
    """

    network: str
    accelerator: str
    adapters: bool
    active: int
    total: int
    beats: MeasuredBeats | None
    vela_cycles: int
    stream_sha256: str
    platform: str
    source: str


class WholeRun(Struct, frozen=True):
    """One run with only NPU TOTAL published, adapters on: a network of many small kernels, in one case in a cascade.

    ``optimise`` is Vela's option; ``beats`` is None where none were published. The stream is one of a network of ours with the same graph,
    random weights and the published SRAM and flash (see :mod:`validation.fvp.scores` for the cycles that it is held to).
    """

    network: str
    accelerator: str
    optimise: str
    total: int
    beats: MeasuredBeats | None
    stream_sha256: str
    source: str

    @property
    def stream(self) -> str:
        """The network and its strategy, as the name of its file begins (:func:`stream_name`)."""
        return f"{self.network}.{self.optimise.lower()}"


class Sweep(Struct, frozen=True):
    """NPU TOTAL under one change of the adapters' settings; ``knob`` names what the series varies.

    The caps are in bus words per period (SRAM 4000 cycles, external memory 400, U65: 5000), 0 for none; the latency in cycles. ``active``
    is NPU ACTIVE where it was published, else None.
    """

    network: str
    accelerator: str
    knob: str
    sram_cap: int
    ext_latency: int
    ext_cap: int
    total: int
    source: str
    active: int | None = None


class SingleOperator(Struct, frozen=True):
    """A convolution or depthwise convolution with a given OFM block, int8, and the cycles that its source expects."""

    accelerator: str
    depthwise: bool
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding
    ifm: Shape3D
    ofm: Shape3D
    block: Shape3D
    cycles: int
    source: str


def _numbered(network: str, accelerator: str, number: int) -> str:
    return f"{network}.{accelerator}.{number}" if number else f"{network}.{accelerator}"


def stream_name(network: str, accelerator: str, number: int = 0) -> str:
    """Name of the file of a measured Program; ``number`` counts those of one network."""
    return f"{_numbered(network, accelerator, number)}.jsonl.xz"


def work_name(network: str, accelerator: str, number: int = 0) -> str:
    """Name of the decoder's work for the weights of a measured Program."""
    return f"{_numbered(network, accelerator, number)}.weights.json.gz"


def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files("validation.fvp.references") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _records(name: str, kind: type[T]) -> tuple[T, ...]:
    """The rows of a file, whose columns are fields. A cell is empty if its figure was not published."""
    found = []
    for row in _rows(name):
        known = {column: cell for column, cell in row.items() if cell}
        beats = {field: known[field] for field in MeasuredBeats.__struct_fields__ if field in known}
        found.append(convert(known | {"beats": beats or None}, kind, strict=False))
    return tuple(found)


@cache
def points() -> tuple[ReferencePoint, ...]:
    """The measured inferences, adapters on first, by network and MACs."""
    return _records(POINTS, ReferencePoint)


@cache
def u65_points() -> tuple[ReferencePoint, ...]:
    """The measured inferences of the Ethos-U65, adapters on (profile ``u65_high_end``) first, by network and MACs."""
    return _records(U65_POINTS, ReferencePoint)


@cache
def u85_points() -> tuple[ReferencePoint, ...]:
    """The measured inferences of the Ethos-U85, adapters on, by network and MACs."""
    return _records(U85_POINTS, ReferencePoint)


@cache
def old_points() -> tuple[ReferencePoint, ...]:
    """Inferences of Arm's own documentation, adapters on: streams of older Velas on an FVP of 2021 or 2022, by network."""
    return _records(OLD_POINTS, ReferencePoint)


@cache
def whole_runs() -> tuple[WholeRun, ...]:
    """The runs of small kernels and of a cascade."""
    return _records(WHOLE_RUNS, WholeRun)


@cache
def sweeps() -> tuple[Sweep, ...]:
    """The sweeps of the timing adapters' settings."""
    return _records(SWEEPS, Sweep)


def _extents(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("x"))


def _pair(text: str) -> tuple[int, int]:
    first, second = _extents(text)
    return first, second


@cache
def single_operators() -> tuple[SingleOperator, ...]:
    """The operators with expected cycles."""
    return tuple(
        SingleOperator(
            accelerator=row["accelerator"],
            depthwise=row["depthwise"] == "true",
            kernel=_pair(row["kernel"]),
            stride=_pair(row["stride"]),
            padding=Padding(*_extents(row["padding"])),
            ifm=Shape3D(*_extents(row["ifm"])),
            ofm=Shape3D(*_extents(row["ofm"])),
            block=Shape3D(*_extents(row["block"])),
            cycles=int(row["cycles"]),
            source=row["source"],
        )
        for row in _rows(OPERATORS)
    )


def _stream_file(name: str) -> bytes:
    return (resources.files("validation.fvp.references") / "streams" / name).read_bytes()


@cache
def measured_program(network: str, accelerator: str, number: int = 0) -> Program:
    """The Program whose inference was measured, without its constants; one of those that :func:`points` or :func:`whole_runs` names."""
    return read_stored(_stream_file(stream_name(network, accelerator, number)))


@cache
def measured_work(network: str, accelerator: str, number: int = 0) -> StreamWork:
    """The decoder's work for the weight streams of :func:`measured_program`; nothing for an Ethos-U85."""
    name = work_name(network, accelerator, number)
    if not (resources.files("validation.fvp.references") / "streams" / name).is_file():
        return {}
    return read_stored_work(_stream_file(name))


def measured_parts(network: str, accelerator: str) -> tuple[tuple[Program, StreamWork], ...]:
    """All Programs of a measured network, which operators on the CPU part, and the decoder's work of each."""
    folder, found = resources.files("validation.fvp.references") / "streams", 1
    while (folder / stream_name(network, accelerator, found)).is_file():
        found += 1
    return tuple((measured_program(network, accelerator, one), measured_work(network, accelerator, one)) for one in range(found))
