"""Values that no inference changes, and shapes beside other signatures: what a network is given to Vela with."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call
from few_examples import few_cases
from hand_built import Graph
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import npu_testbed
from cascader.frontends.vela import CompilerOptions, checked_network, compile_network, legalised
from cascader.frontends.vela.known_tensors import prepared
from npu_model.compiled.network import OFFLINE_ALLOCATION, CpuOperator, read_compiled
from npu_model.tflite.known_values import MOST_BYTES, known_values
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import RecordReader, read_records
from npu_model.tflite.writer import write_tflite
from validation import zoo
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed, reference_outputs
from validation.portfolio import build

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")


def chain(graph: Graph, x: int) -> int:
    """SHAPE of ``x``, its first extent, and PACK of that with constants: the shape of columns to be added."""
    shape = graph.tensor("shape", (len(graph.tensors[x].shape),), "int32", None)
    graph.operator("SHAPE", (x,), (shape,), "ShapeOptions", version=1, OutType=2)
    ends = [graph.constant(name, [value]) for name, value in (("begin", 0), ("end", 1), ("step", 1))]
    first = graph.tensor("first", (), "int32", None)
    graph.operator("STRIDED_SLICE", (shape, *ends), (first,), "StridedSliceOptions", version=1, ShrinkAxisMask=1)
    rest = [graph.constant(f"extent_{number}", extent) for number, extent in enumerate((12, 2, 8))]
    packed = graph.tensor("packed", (4,), "int32", None)
    graph.operator("PACK", (first, *rest), (packed,), "PackOptions", version=1, ValuesCount=4, Axis=0)
    return packed


def filled_columns(*, ends_in_shape: bool = False) -> bytes:
    """Columns of zeros, of a shape that is worked out of the input's, beside those of the image."""
    graph = Graph()
    x = graph.tensor("image", (1, 12, 12, 8))
    y = graph.conv(x, 8, "conv")
    packed = chain(graph, y)
    zeros = graph.tensor("zeros", (1, 12, 2, 8), "int8", graph.tensors[y].scales[0])
    value = graph.tensor("value", (), "int8", graph.tensors[y].scales[0], 3, data=3)
    graph.operator("FILL", (packed, value), (zeros,), version=3)
    joined = graph.tensor("joined", (1, 12, 14, 8), "int8", graph.tensors[y].scales[0])
    graph.operator("CONCATENATION", (y, zeros), (joined,), "ConcatenationOptions", Axis=2)
    return graph.finish([x], [joined, packed] if ends_in_shape else [joined])


@pytest.mark.parametrize("ends_in_shape", [False, True])
def test_a_chain_of_shapes_leaves_nothing_on_the_cpu(ends_in_shape: bool) -> None:  # noqa: FBT001  # a parameter of the test
    found = legalised(filled_columns(ends_in_shape=ends_in_shape))
    assert not [step for step in found.stream.steps if isinstance(step, CpuOperator)]


@needs_litert
@pytest.mark.parametrize("ends_in_shape", [False, True])
def test_a_chain_of_shapes_is_compiled_exported_and_verified(ends_in_shape: bool, tmp_path: Path) -> None:  # noqa: FBT001  # as above
    source = tmp_path / "net.tflite"
    source.write_bytes(filled_columns(ends_in_shape=ends_in_shape))
    assert call("compile", source, "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path).status == 0
    for file in ("net_vela.tflite", "net_schedule.json"):
        assert call("verify", tmp_path / file, "--model", source).status == 0
    exported = tmp_path / "again.tflite"
    assert call("export", tmp_path / "net_schedule.json", "--model", source, "-o", exported).status == 0
    assert call("verify", exported, "--model", source).status == 0


@needs_litert
@pytest.mark.parametrize("legacy", [False, True])
def test_velas_own_file_with_a_chain_of_shapes_runs_as_litert_has_it(legacy: bool, tmp_path: Path) -> None:  # noqa: FBT001  # as above
    """The Python core folds the SHAPE, and the C++ core leaves the scalar behind it to the runtime, which places it."""
    source, compiled = tmp_path / "net.tflite", tmp_path / "net_vela.tflite"
    source.write_bytes(filled_columns())
    result = compile_network(source.read_bytes(), CompilerOptions(legacy=legacy))
    compiled.write_bytes(result.compiled)
    network = checked_network(result, source.read_bytes())
    codes = [step.code for step in network.steps if isinstance(step, CpuOperator)]
    assert codes[-3:] == ["STRIDED_SLICE", "PACK", "FILL"]
    assert call("verify", compiled, "--model", source).status == 0


KINDS = st.sampled_from(["ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "FLOOR_DIV", "FLOOR_MOD", "DIV"])
OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions", "MINIMUM": "MaximumMinimumOptions"}


@needs_litert
@settings(max_examples=10)  # each asks LiteRT in a process of its own
@given(st.lists(st.tuples(KINDS, st.integers(1, 40)), min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 9))
def test_sums_of_shapes_are_worked_out_as_litert_does(steps: list[tuple[str, int]], batch: int, rows: int) -> None:
    graph = Graph()
    x = graph.tensor("image", (batch, rows, 3, 2))
    last = graph.tensor("shape", (4,), "int32", None)
    graph.operator("SHAPE", (x,), (last,), "ShapeOptions", version=1, OutType=2)
    for number, (kind, other) in enumerate(steps):
        y = graph.tensor(f"y{number}", (4,), "int32", None)
        options = OPTIONS.get(kind, f"{kind.title().replace('_', '')}Options")
        options = "MaximumMinimumOptions" if kind == "MAXIMUM" else options
        graph.operator(kind, (last, graph.constant(f"c{number}", [other, -3, 7, 2])), (y,), options, version=1)
        last = y
    model = graph.finish([x], [last])
    known = known_values(RecordReader(model))
    (expected,) = reference_outputs(model, [{"image": np.zeros((batch, rows, 3, 2), np.int8)}])
    assert known[last] == next(iter(expected.values())).tobytes()


MOVES: dict[str, tuple[Any, ...]] = {
    "SLICE": ((2,), "SliceOptions", [[1], [2]], {}),
    "GATHER": ((2,), "GatherOptions", [[3, 0]], {"Axis": 0}),
    "CONCATENATION": ((6,), "ConcatenationOptions", [[7, 8]], {"Axis": 0}),
    "EXPAND_DIMS": ((1, 4), "ExpandDimsOptions", [0], {}),
    "REDUCE_PROD": ((), "ReducerOptions", [[0]], {"KeepDims": False}),
    "SUM": ((1,), "ReducerOptions", [[0]], {"KeepDims": True}),
    "TILE": ((12,), "TileOptions", [[3]], {}),
    "CAST": ((4,), "CastOptions", [], {"InDataType": 2, "OutDataType": 4}),
}


@needs_litert
@pytest.mark.parametrize("kind", MOVES)
def test_moves_of_shapes_are_worked_out_as_litert_does(kind: str) -> None:
    shape, options, constants, fields = MOVES[kind]
    graph = Graph()
    x = graph.tensor("image", (5, 3, 7, 2))
    known = graph.tensor("shape", (4,), "int32", None)
    graph.operator("SHAPE", (x,), (known,), "ShapeOptions", version=1, OutType=2)
    y = graph.tensor("y", shape, "int64" if kind == "CAST" else "int32", None)
    numbers = [graph.constant(f"c{number}", value) for number, value in enumerate(constants)]
    graph.operator(kind, (known, *numbers), (y,), options, version=1, **fields)
    model = graph.finish([x], [y])
    (expected,) = reference_outputs(model, [{"image": np.zeros((5, 3, 7, 2), np.int8)}])
    assert known_values(RecordReader(model))[y] == next(iter(expected.values())).tobytes()


def test_what_is_large_or_not_known_is_left_to_its_operator() -> None:
    graph = Graph()
    x = graph.tensor("image", (1, 4, 4, 8))
    shape = graph.constant("large", [1, 1, MOST_BYTES // 8 + 1, 8])
    value = graph.tensor("value", (), "int8", data=3)
    large = graph.tensor("filled", (1, 1, MOST_BYTES // 8 + 1, 8))
    graph.operator("FILL", (shape, value), (large,))
    assert known_values(RecordReader(graph.finish([x], [large]))) == {}
    records = read_records(filled_columns())
    unknown = replace(records.tensors[records.inputs[0] + 3], shape_signature=(-1, -1, 12, 8))
    tensors = (*records.tensors[:3], unknown, *records.tensors[4:])
    model = write_tflite(replace(records, tensors=tensors))
    assert {read_tflite(model).tensors[index].name for index in known_values(RecordReader(model))} == set()


def cut_network(*, signed: bool = True) -> bytes:
    """Rows of a padded image, padded by nothing and joined again, as a tool cuts a network; its signatures are of the network uncut."""
    net = NetworkBuilder("cut")
    padded = net.pad(net.input((1, 24, 32, 1), "image"), 1, 1, 1, 1)
    parts = [net.slice(padded, (0, first, 0, 0), (1, 12, 34, 1)) for first in (0, 10)]
    nothing = [net.pad_all(part, ((0, 0),) * 4) for part in parts]
    records = read_records(net.finish([net.concat(nothing, 1)]))
    odd = (
        replace(one, shape_signature=(-1, 24, 32, 1)) if one.shape in ((1, 26, 34, 1), (1, 12, 34, 1)) else one for one in records.tensors
    )
    return write_tflite(replace(records, tensors=tuple(odd))) if signed else write_tflite(records)


@needs_litert
@pytest.mark.parametrize("signed", [True, False])
def test_rows_padded_by_nothing_are_joined_whatever_their_signatures_say(signed: bool, tmp_path: Path) -> None:  # noqa: FBT001  # as above
    source = tmp_path / "net.tflite"
    source.write_bytes(cut_network(signed=signed))
    assert call("compile", source, "--disable-cascading", "--output-dir", tmp_path).status == 0
    assert call("verify", tmp_path / "net_vela.tflite", "--model", source).status == 0
    assert call("simulate", "vela", source, "--no-advice").status == 0


def test_each_core_can_rescue_the_other_where_pads_of_nothing_are_joined() -> None:
    from cascader.frontends.vela.model_changes import without_identities  # noqa: PLC0415  # of this test alone

    plain = without_identities(prepared(cut_network())[0])
    for legacy in (False, True):
        checked_network(compile_network(plain, CompilerOptions(legacy=legacy, legalise=True)), plain)


def test_a_network_that_is_as_it_should_be_is_not_changed() -> None:
    for name in ("mnist", "cpu_heads", "flatten_fc"):
        model = build(name)
        assert prepared(model)[0] is model


def test_a_file_that_writes_the_newer_field_of_operator_codes_alone_is_read() -> None:
    model = bytearray(build("flatten_fc"))
    import tflite  # noqa: PLC0415  # of this test alone

    root = tflite.Model.GetRootAsModel(model, 0)
    expected = [operator.code for operator in read_tflite(bytes(model)).operators]
    for number in range(root.OperatorCodesLength()):
        code = root.OperatorCodes(number)
        place = code._tab.Offset(4)  # the place of the deprecated field in the table
        if place:
            model[code._tab.Pos + place] = 0  # the same
    assert [operator.code for operator in read_tflite(bytes(model)).operators] == expected


@pytest.mark.parametrize("kind", ["FILL", "TILE", "BROADCAST_TO", "RANGE"])
def test_a_damaged_file_that_asks_for_a_huge_value_gets_none(kind: str) -> None:
    graph = Graph()
    x, huge, few = graph.tensor("image", (1, 4, 4, 8)), [1 << 30, 1 << 20], graph.tensor("few", (4,), "int32", None)
    operands = {
        "FILL": [huge, 1],
        "TILE": [[[1, 2]], huge],
        "BROADCAST_TO": [[1], huge],
        "RANGE": [0, 1 << 30, 1],
    }[kind]
    graph.operator(kind, [graph.constant(f"c{number}", value) for number, value in enumerate(operands)], (few,))
    assert known_values(RecordReader(graph.finish([x], [few]))) == {}


@cache
def scheduled_bytes(model: bytes) -> int:
    return npu_testbed.schedule(model).arena_bytes


@pytest.mark.law
@pytest.mark.parametrize(("offsets", "legacy"), few_cases([(-1, -1, -1), (0, 64, -1), (-1,), (), (7,) * 40], [False, True]))
def test_arena_offsets_of_a_models_own_are_not_taken_for_those_of_vela(offsets: tuple[int, ...], *, legacy: bool) -> None:
    plain = zoo.build("tiny_conv")
    blob = struct.pack(f"<{3 + len(offsets)}i", 0, 0, len(offsets), *offsets)
    model = write_tflite(replace(read_records(plain), metadata=(("min_runtime_version", b"1.5.0"), (OFFLINE_ALLOCATION, blob))))
    options = CompilerOptions("ethos-u55-128", legacy=legacy)
    own, bare = (read_compiled(compile_network(one, options).compiled) for one in (model, plain))
    assert own == bare
    assert scheduled_bytes(model) == scheduled_bytes(plain)


@needs_litert
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("columns", [-1, 128])
@pytest.mark.parametrize("blank", [(1, 1), (1, 16)])
def test_a_reshape_to_a_shape_that_is_worked_out_has_it(dtype: str, columns: int, blank: tuple[int, ...], tmp_path: Path) -> None:
    graph, kind = Graph(), {"int32": 2, "int64": 4}[dtype]
    x = graph.tensor("image", (1, 4, 4, 8))
    y = graph.conv(x, 8, "conv")
    shape, first, joined = (graph.tensor(name, (size,), dtype, None) for name, size in (("shape", 4), ("first", 1), ("joined", 2)))
    graph.operator("SHAPE", (y,), (shape,), "ShapeOptions", version=1, OutType=kind)
    graph.operator("SLICE", (shape, graph.constant("b", [0], dtype), graph.constant("s", [1], dtype)), (first,), "SliceOptions", version=1)
    graph.operator("CONCATENATION", (first, graph.constant("rest", [columns], dtype)), (joined,), "ConcatenationOptions", version=1, Axis=0)
    cast = graph.tensor("cast", (2,), "int32", None)
    graph.operator("CAST", (joined,), (cast,), "CastOptions", version=1, InDataType=kind, OutDataType=2)
    flat = graph.tensor("flat", (1, 128), "int8", graph.tensors[y].scales[0])
    graph.operator("RESHAPE", (y, cast), (flat,), "ReshapeOptions", version=1)
    known = graph.finish([x], [graph.dense(flat, 8, "dense")])
    graph.tensors[flat] = replace(graph.tensors[flat], shape=blank, shape_signature=(-1, -1))
    source = tmp_path / "net.tflite"
    source.write_bytes(graph.finish([x], [len(graph.tensors) - 1]))
    open_, closed = npu_testbed.schedule(source, output=tmp_path / "made.json"), npu_testbed.schedule(known)
    assert (open_.arena_bytes, open_.cycles) == (closed.arena_bytes, closed.cycles)
    assert call("verify", tmp_path / "made.json", "--model", source).status == 0
