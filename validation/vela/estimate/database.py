"""Vela's debug database read two ways: what its estimator was told of every operation, and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from cascader.frontends.vela.debug_database import Tables, read_tables
from cascader.frontends.vela.result import VelaResult
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, Kernel, KernelOperation, Layout, Program
from npu_model.shapes import Shape3D
from validation.vela.estimate.memories import VelaMemories
from validation.vela.estimate.operation import ENGINES, EstimatedOperation, VelaOperand, VelaTable, Weights

_BITS = {"Int8": 8, "UInt8": 8, "Int16": 16, "UInt16": 16, "Int32": 32, "UInt32": 32}
_LAYOUTS = {"NHWC": Layout.NHWC, "NHCWB16": Layout.NHCWB16}
_TABLE_BYTES = {("Int8", "Int8"): 256, ("UInt8", "UInt8"): 256, ("Int8", "Int32"): 1024, ("Int16", "Int16"): 2048}
"""256 entries of 1 or 4 bytes, or 512 entries of base and slope: 4 bytes (the LUT slots of command streams)."""

Row = Mapping[str, str]


class Recorded(Struct, frozen=True):
    """One operation of the database: Vela's number and name of it, its operator and Vela's own columns.

    ``operation`` is what the estimator was told; None if the operation is of a kind that is not known here, or runs on the CPU
    and so has no ``columns``.
    """

    number: str
    name: str
    operator: str
    operation: EstimatedOperation | None
    columns: dict[str, int]


def _shape(row: Row, name: str) -> Shape3D:
    return Shape3D(*(int(row[f"{name}_{axis}"] or 0) for axis in "hwc"))


def _used(row: Row, name: str) -> str:
    """The columns of the part of a feature map that the operation uses: its slice, if it has one."""
    return f"{name}_slice" if _shape(row, f"{name}_slice").elements else f"{name}_shape"


def _is_known(row: Row, name: str) -> bool:
    """Whether the feature map is of a single batch and of a type that the NPU has."""
    return row[f"{_used(row, name)}_n"] == "1" and row[f"{name}_dtype"] in _BITS


def _operand(row: Row, name: str, memories: VelaMemories) -> VelaOperand:
    memory = memories.find(row[f"{name}_memory"])
    return VelaOperand(_shape(row, _used(row, name)), _BITS[row[f"{name}_dtype"]], _LAYOUTS.get(row[f"{name}_format"]), memory)


def _weights(row: Row, kernel: KernelOperation, memories: VelaMemories) -> Weights | None:
    if not row["weight_total_bytes"]:
        return None
    bounds = [int(bound) for bound in row["ofm_depth_slices"].split("|")]
    first = sum(part.length for part in kernel.weights + kernel.scales)
    return Weights(
        encoded_bytes=int(row["weight_total_bytes"]),
        depth_slices=tuple(end - start for start, end in pairwise(bounds)),
        home=memories.constants,
        staging=memories.staging if row["weight_buffering"] else None,
        first_transfer_bytes=first,
        pre_buffered=row["weight_pre_buffer"] == "1",
        full_transfer_cycles=int(row["weight_transfer_cycles"] or 0),
    )


def _table(row: Row, operator: str, memories: VelaMemories) -> VelaTable | None:
    if operator != "LUT":
        return None
    return VelaTable(_TABLE_BYTES[row["ifm_dtype"], row["ofm_dtype"]], memories.constants)


def _kernel(row: Row) -> Kernel:
    size, stride, dilation = ((int(row[f"kernel_{what}_y"]), int(row[f"kernel_{what}_x"])) for what in ("size", "stride", "dilation"))
    return Kernel(*size, *stride, *dilation)


def _describe(
    row: Row, main: Row, operator: str, activation: str, kernel: KernelOperation, memories: VelaMemories
) -> EstimatedOperation | None:
    """The operation as the estimator sees it; None if it is of a kind that is not known here."""
    is_binary = bool(row["ifm2_dtype"])
    known = operator in ENGINES and all(_is_known(row, name) for name in ("ifm", "ofm", *(("ifm2",) if is_binary else ())))
    if operator == "LUT":
        known = known and (row["ifm_dtype"], row["ofm_dtype"]) in _TABLE_BYTES
    ifm_block, ofm_block = _shape(main, "ifm_block"), _shape(main, "ofm_block")
    if not known or not ifm_block.elements or not ofm_block.elements:
        return None
    return EstimatedOperation(
        operator=operator,
        engine=ENGINES[operator],
        ifm=_operand(row, "ifm", memories),
        ifm2=_operand(row, "ifm2", memories) if is_binary else None,
        ofm=_operand(row, "ofm", memories),
        ifm_block=ifm_block,
        ofm_block=ofm_block,
        stripe=_shape(row, "ofm_stripe"),
        kernel=_kernel(row),
        part_kernel=main["traversal"] == "PartKernel",
        acc40=kernel.accumulator is AccumulatorFormat.INT40,
        upscale=kernel.upscale,
        activation=activation,
        weights=_weights(row, kernel, memories),
        lut=_table(row, operator, memories),
    )


def _first_kernels(tables: Tables, programs: tuple[Program, ...]) -> dict[str, KernelOperation]:
    """The first kernel operation of every scheduled operation, by its number."""
    kernels = {
        (stream, offset): kernel
        for stream, program in enumerate(programs)
        for offset, kernel in zip(program.kernel_offsets.values(), program.kernels, strict=True)
    }
    streams = sorted({int(row["cmdstream_id"]) for row in tables["queue"]})
    first: dict[str, KernelOperation] = {}
    for row in tables["queue"]:
        kernel = kernels.get((streams.index(int(row["cmdstream_id"])), int(row["offset"])))
        if kernel is not None:
            first.setdefault(row["scheduled_id"], kernel)
    return first


def _columns(perf: Row, debug: Row, main: Row) -> dict[str, int]:
    """Vela's integer columns of the estimate by its own names; blank ones are left out."""
    columns = {name: main[name] for name in ("mac_cycles", "ao_cycles", "cmd_cycles")}
    columns |= {name: perf[name] for name in perf if name in ("mac_count", "npu_cycles", "op_cycles") or name.endswith("_ac")}
    columns |= {name: debug[name] for name in debug if name.endswith(("_ac", "_read", "_write"))}
    return {name: int(text) for name, text in columns.items() if text}


def read_database(result: VelaResult, memories: VelaMemories) -> tuple[Recorded, ...]:
    """Every operation that Vela has scheduled, in order.

    InputError if a table or column that is needed is missing: Vela has changed.
    """
    tables = read_tables(result.database)
    programs = read_compiled(result.compiled).programs
    try:
        kernels = _first_kernels(tables, programs)
        debug = {row["id"]: row for row in tables["perf_debug"]}
        main = {row["id"]: row for row in tables["perf_debug_main"]}
        operators = {row["id"]: row["operator"] for row in tables["perf"]}
        activations = {row["group_id"]: operators.get(row["id"], "") for row in tables.get("group", ())}
        fused = {row["id"] for row in tables.get("group", ())}
        recorded = []
        for perf in tables["perf"]:
            number = perf["id"]
            if number in fused:
                continue
            if number not in main and number not in kernels:
                recorded.append(Recorded(number, perf["name"], perf["operator"], None, {}))
                continue
            kernel = kernels.get(number)
            operation = None
            if kernel is not None:
                operation = _describe(debug[number], main[number], perf["operator"], activations.get(number, ""), kernel, memories)
            recorded.append(Recorded(number, perf["name"], perf["operator"], operation, _columns(perf, debug[number], main[number])))
    except InputError:
        raise
    except (KeyError, ValueError) as error:
        raise InputError(
            f"Vela {result.version}'s debug database is not that of version 5.2 ({error}): install 'ethos-u-vela>=5.2,<6'."
        ) from None
    return tuple(recorded)
