"""A .tflite file as records: what is read can be written again, and is the same file to every reader."""

from __future__ import annotations

import random

import flatbuffers
import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import model_bytes

from npu_model.errors import InputError
from npu_model.tflite import writer as tflite_writer
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import RecordReader, option_fields, read_records
from npu_model.tflite.records import FieldValue, ModelRecord, OperatorRecord, SignatureRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.writer import write_tflite

CONTROL_FLOW = ("CallOnceOptions", "CallOptions", "IfOptions", "WhileOptions")
OPTIONS = sorted(name for name in vars(tflite.BuiltinOptions) if not name.startswith("_") and name not in ("NONE", *CONTROL_FLOW))
VECTORS = {
    ("ReshapeOptions", "NewShape"): (1, -1),
    ("SqueezeOptions", "SqueezeDims"): (0, 2),
    ("BucketizeOptions", "Boundaries"): (0.0, 1.5),
    ("ConcatEmbeddingsOptions", "NumColumnsPerChannel"): (3,),
    ("ConcatEmbeddingsOptions", "EmbeddingDimPerChannel"): (4, 5),
}
TEXTS = {("VarHandleOptions", "Container"): "box", ("VarHandleOptions", "SharedName"): "état"}
PORTS = (TensorRecord("in", (1, 4), 9), TensorRecord("out", (1, 4), 9))


def one_operator(operator: OperatorRecord) -> ModelRecord:
    return ModelRecord("main", "", PORTS, (operator,), (0,), (1,))


def through_a_file(model: ModelRecord) -> ModelRecord:
    return read_records(write_tflite(model))


def other(value: FieldValue) -> FieldValue:
    """Not the default of a field."""
    if isinstance(value, bool):
        return not value
    return value + 1


@pytest.mark.parametrize("name", ["tiny_residual", "cpu", "kws_micronet_m", "deeplabv3_mnv3_256_i8", "rnnoise_INT8"])
def test_a_model_written_from_its_records_has_the_same_records_and_content(name: str) -> None:
    data = model_bytes(name)
    again = write_tflite(read_records(data))
    assert read_records(again) == read_records(data)
    assert read_tflite(again) == read_tflite(data)


@pytest.mark.parametrize("name", ["cpu", "rnnoise_INT8"])
def test_litert_computes_the_same_from_a_model_written_from_its_records(name: str) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    outputs = []
    for data in (model_bytes(name), write_tflite(read_records(model_bytes(name)))):
        interpreter = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
        interpreter.allocate_tensors()
        generator = np.random.default_rng(2)
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], generator.integers(-128, 128, detail["shape"]).astype(np.int8))
        interpreter.invoke()
        outputs.append([interpreter.get_tensor(detail["index"]).tobytes() for detail in interpreter.get_output_details()])
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("options", OPTIONS)
def test_every_options_table_keeps_every_field(options: str) -> None:
    defaults = dict(read_records(write_tflite(one_operator(OperatorRecord(0, 1, (0,), (1,), options)))).operators[0].fields)
    fields: list[tuple[str, FieldValue]] = []
    for name in option_fields(options):
        given_value = VECTORS.get((options, name)) or TEXTS.get((options, name))
        fields.append((name, given_value if given_value is not None else other(defaults[name])))
    operator = OperatorRecord(3, 2, (0, -1), (1,), options, tuple(fields))
    assert through_a_file(one_operator(operator)).operators == (operator,)


@pytest.mark.parametrize("options", CONTROL_FLOW)
def test_an_operator_keeps_the_numbers_of_the_subgraphs_that_it_runs(options: str) -> None:
    fields: tuple[tuple[str, FieldValue], ...] = tuple((name, 1) for name in option_fields(options))
    assert fields
    model = one_operator(OperatorRecord(3, 1, (0,), (1,), options, fields))
    body = SubgraphRecord("body", (*PORTS, TensorRecord("more", (2,), 9, data=b"ab")), (OperatorRecord(101, 1, (0,), (1,)),), (0,), (1,))
    whole = replace(model, others=(body,), signatures=(SignatureRecord("inner", (("x", 0),), (("y", 1),), subgraph=1),))
    assert through_a_file(whole) == whole
    with pytest.raises(InputError, match="Operator 0 runs subgraph 1 but the file has 0 to 0"):
        through_a_file(model)


def test_a_custom_operator_keeps_its_code_and_options() -> None:
    operator = OperatorRecord(tflite.BuiltinOperator.CUSTOM, 7, (0,), (1,), custom_code="detector", custom_options=bytes(range(200)))
    assert through_a_file(one_operator(operator)).operators == (operator,)


def test_operators_of_one_code_and_two_versions_keep_their_versions() -> None:
    operators = (OperatorRecord(3, 2, (0,), (1,)), OperatorRecord(3, 1, (0,), (1,)), OperatorRecord(150, 1, (0,), (1,)))
    assert through_a_file(replace(one_operator(operators[0]), operators=operators)).operators == operators


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
tensors = st.builds(
    TensorRecord,
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    shape=st.lists(st.integers(1, 9), max_size=5).map(tuple),
    dtype=st.sampled_from([tflite.TensorType.INT8, tflite.TensorType.FLOAT32, tflite.TensorType.INT64, tflite.TensorType.BOOL]),
    scales=st.lists(floats, min_size=1, max_size=4).map(tuple),
    zero_points=st.lists(st.integers(-(2**40), 2**40), max_size=4).map(tuple),
    quantised_dimension=st.integers(0, 3),
    data=st.binary(max_size=40),
    minimums=st.lists(floats, max_size=2).map(tuple),
    maximums=st.lists(floats, max_size=2).map(tuple),
    shape_signature=st.lists(st.integers(-1, 9), max_size=4).map(tuple),
    is_variable=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(tensors, max_size=5), st.lists(st.tuples(st.text("abc", min_size=1), st.binary(max_size=20)), max_size=3))
def test_tensors_metadata_and_signatures_survive_a_file(records: list[TensorRecord], metadata: list[tuple[str, bytes]]) -> None:
    model = ModelRecord(
        "graph",
        "about",
        (*PORTS, *records),
        (OperatorRecord(0, 1, (0,), (1,)),),
        (0,),
        (1,),
        tuple(dict(metadata).items()),
        (SignatureRecord("serve", (("x", 0),), (("y", 1), ("z", 1))),),
    )
    assert through_a_file(model) == model


def mutations(data: bytes, count: int) -> list[bytes]:
    generator, copies = random.Random(9), []
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(generator.choice((1, 2, 4))):
            copy[generator.randrange(len(copy))] = generator.choice((0, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        copies.append(bytes(copy))
    return copies


def refusal(data: bytes) -> str:
    """The error of reading ``data``, "" if it is read."""
    try:
        read_records(data)
    except InputError as error:
        return str(error)
    return ""


def test_a_file_with_changed_bytes_is_read_or_refused_in_one_sentence() -> None:
    data = model_bytes("cpu")
    assert len(data) < 5000  # so that most changes hit the tables
    messages = [refusal(copy) for copy in mutations(data, 1500)]
    assert "" in messages
    refusals = [message for message in messages if message]
    assert refusals
    assert [message for message in refusals if not message.endswith(".") or "\n" in message] == []


def test_signatures_that_share_one_long_list_of_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = SignatureRecord("s", tuple((f"name{i}", 0) for i in range(500)), ())
    model = replace(one_operator(OperatorRecord(0, 1, (0,), (1,))), signatures=(signature,) * 60)
    assert through_a_file(model) == model
    written: dict[tuple[tuple[str, int], ...], int] = {}
    write_map = tflite_writer._tensor_map

    def shared(builder: flatbuffers.Builder, entries: tuple[tuple[str, int], ...]) -> int:
        if entries not in written:
            written[entries] = write_map(builder, entries)
        return written[entries]

    monkeypatch.setattr(tflite_writer, "_tensor_map", shared)
    assert "overlap to over 4 times" in refusal(write_tflite(model))


def test_tensors_and_operators_are_read_one_by_one_so_that_what_cannot_be_copied_may_stay_behind() -> None:
    operators = (OperatorRecord(0, 1, (0,), (1,), "IfOptions", (("ElseSubgraphIndex", 1), ("ThenSubgraphIndex", 2))),)
    operators += (OperatorRecord(5, 1, (0,), (1,), "DepthToSpaceOptions", (("BlockSize", 2),)),)
    reader = RecordReader(write_tflite(replace(one_operator(operators[0]), operators=operators)))
    assert reader.operator(1) == operators[1]
    with pytest.raises(InputError, match="Operator 0 runs subgraph 1 but the file has 0 to 0"):
        reader.operator(0)
