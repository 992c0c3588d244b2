from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import tflite
from reference_data import shared_data

from npu_model.command_stream import build_payload, decode_words, parse_payload
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite

Reader = Callable[[bytes], object]
COMPILED = "fvp/streams/rnnoise_INT8.ethos-u55-64.vela500.tflite"
PLAIN = "models/rnnoise_INT8.tflite"
FILES = pytest.mark.parametrize(("name", "read"), [(COMPILED, read_compiled), (PLAIN, read_tflite)], ids=["compiled", "plain"])
MUTATIONS = 400


def load(name: str) -> bytes:
    return (shared_data() / Path(name)).read_bytes()


def survives(read: Reader, data: bytes) -> bool:
    """Whether ``data`` is read; anything but an InputError of one sentence fails the test."""
    try:
        read(data)
    except InputError as error:
        message = str(error)
        assert message.endswith("."), message
        assert "\n" not in message
        return False
    return True


def mutations(data: bytes, seed: int) -> Iterator[bytes]:
    """Copies with a few bytes changed, mostly in the tables at both ends of the file."""
    rng = random.Random(seed)
    for _ in range(MUTATIONS):
        copy = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            place = rng.choice((rng.randrange(len(data)), rng.randrange(2000), len(data) - 1 - rng.randrange(8000)))
            copy[place] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        yield bytes(copy)


@FILES
def test_an_intact_file_is_read(name: str, read: Reader) -> None:
    assert survives(read, load(name))


@FILES
def test_a_file_cut_off_at_any_percent_is_refused(name: str, read: Reader) -> None:
    data = load(name)
    for percent in range(100):
        assert not survives(read, data[: len(data) * percent // 100]), percent


@FILES
def test_a_file_with_changed_bytes_is_read_or_refused_in_bounded_time(name: str, read: Reader) -> None:
    data = load(name)
    worst, read_count = 0.0, 0
    for copy in mutations(data, seed=1):
        start = time.process_time()
        read_count += survives(read, copy)
        worst = max(worst, time.process_time() - start)
    assert 0 < read_count < MUTATIONS
    assert worst < 2


@FILES
def test_a_file_with_changed_bytes_takes_memory_in_proportion_to_its_size(name: str, read: Reader) -> None:
    data = load(name)
    tracemalloc.start()
    try:
        for copy in islice(mutations(data, seed=2), 80):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            survives(read, copy)
            assert tracemalloc.get_traced_memory()[1] - before < 100 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filler", [0, 1, 0x10, 0x7F, 0xFF])
@FILES
def test_a_file_of_one_byte_over_and_over_is_refused(name: str, read: Reader, filler: int) -> None:
    head = load(name)[:8]
    assert not survives(read, head + bytes([filler]) * 4096)
    assert not survives(read, b"\x10\0\0\0TFL3" + bytes([filler]) * 4096)


def vector(builder: flatbuffers.Builder, values: tuple[int, ...]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, dtype=np.int32)))


def tables(builder: flatbuffers.Builder, items: list[int]) -> int:
    builder.StartVector(4, len(items), 4)
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return int(builder.EndVector())


def buffer(builder: flatbuffers.Builder, content: bytes) -> int:
    data = builder.CreateByteVector(content)
    tflite.BufferStart(builder)
    tflite.BufferAddData(builder, data)
    return int(tflite.BufferEnd(builder))


def tensor(builder: flatbuffers.Builder, name: str, shape: tuple[int, ...], dtype: str, index: int, scale: float) -> int:
    scales = builder.CreateNumpyVector(np.array([scale], dtype=np.float32))
    zero_points = builder.CreateNumpyVector(np.array([0], dtype=np.int64))
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zero_points)
    quantisation = tflite.QuantizationParametersEnd(builder)
    text, extents = builder.CreateString(name), vector(builder, shape)
    tflite.TensorStart(builder)
    tflite.TensorAddName(builder, text)
    tflite.TensorAddShape(builder, extents)
    tflite.TensorAddType(builder, getattr(tflite.TensorType, dtype))
    tflite.TensorAddBuffer(builder, index)
    tflite.TensorAddQuantization(builder, quantisation)
    return int(tflite.TensorEnd(builder))


def graph(builder: flatbuffers.Builder, tensors: int) -> int:
    """One operator on tensors 0 to 3 that reads tensor 4 and writes tensor 5."""
    inputs, outputs = vector(builder, (0, 1, 2, 3, 4)), vector(builder, (5,))
    tflite.OperatorStart(builder)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    operators = tables(builder, [int(tflite.OperatorEnd(builder))])
    inputs, outputs = vector(builder, (4,)), vector(builder, (5,))
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensors)
    tflite.SubGraphAddInputs(builder, inputs)
    tflite.SubGraphAddOutputs(builder, outputs)
    tflite.SubGraphAddOperators(builder, operators)
    return tables(builder, [int(tflite.SubGraphEnd(builder))])


def custom_code(builder: flatbuffers.Builder) -> int:
    custom = builder.CreateString("ethos-u")
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, tflite.BuiltinOperator.CUSTOM)
    tflite.OperatorCodeAddBuiltinCode(builder, tflite.BuiltinOperator.CUSTOM)
    tflite.OperatorCodeAddCustomCode(builder, custom)
    return tables(builder, [int(tflite.OperatorCodeEnd(builder))])


def compiled_file(
    words: tuple[int, ...], *, shape: tuple[int, ...] = (1, 4), arena: int = 64, dtype: str = "INT8", scale: float = 0.5, offsets: int = 6
) -> bytes:
    """A compiled network of one ``ethos-u`` operator: what the decoder reads of it and nothing more."""
    builder = flatbuffers.Builder(0)
    payload = build_payload(words, "ethos-u55-128")
    arena_offsets = struct.pack("<9i", 1, 0, offsets, -1, -1, 0, 0, 0, 16)
    buffers = tables(builder, [buffer(builder, part) for part in (b"", payload, bytes(16), arena_offsets)])
    rows = [("stream", (len(payload),), "UINT8", 1), ("constants", (16,), "UINT8", 2)]
    rows += [("scratch", (arena,), "UINT8", 0), ("fast", (arena,), "UINT8", 0), ("in", shape, dtype, 0), ("out", shape, dtype, 0)]
    graphs = graph(builder, tables(builder, [tensor(builder, *row, scale) for row in rows]))
    codes = custom_code(builder)
    name = builder.CreateString("OfflineMemoryAllocation")
    tflite.MetadataStart(builder)
    tflite.MetadataAddName(builder, name)
    tflite.MetadataAddBuffer(builder, 3)
    metadata = tables(builder, [int(tflite.MetadataEnd(builder))])
    tflite.ModelStart(builder)
    tflite.ModelAddOperatorCodes(builder, codes)
    tflite.ModelAddSubgraphs(builder, graphs)
    tflite.ModelAddBuffers(builder, buffers)
    tflite.ModelAddMetadata(builder, metadata)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def test_ten_thousand_tensors_that_share_one_buffer_are_refused() -> None:
    builder = flatbuffers.Builder(0)
    shared = buffer(builder, bytes(50_000))
    tflite.TensorStart(builder)
    tensors = tables(builder, [int(tflite.TensorEnd(builder))] * 10_000)
    graphs, buffers = graph(builder, tensors), tables(builder, [shared])
    tflite.ModelStart(builder)
    tflite.ModelAddSubgraphs(builder, graphs)
    tflite.ModelAddBuffers(builder, buffers)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    with pytest.raises(InputError, match="overlap to over 4 times"):
        read_tflite(bytes(builder.Output()))


STOP = (0xFFFF << 16,)


def test_the_smallest_compiled_network_is_one_stop() -> None:
    network = read_compiled(compiled_file(STOP))
    (program,) = network.programs
    assert (network.arena_size, program.words, len(program.operations)) == (64, (1,), 1)
    assert (network.inputs[0].name, network.inputs[0].shape, network.outputs[0].address) == ("in", (1, 4), 16)


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        (compiled_file(STOP, shape=(1, -4)), r"shape \(1, -4\)"),
        (compiled_file(STOP, shape=(0,)), r"shape \(0,\)"),
        (compiled_file(STOP, shape=(2147483647,) * 8), "has its array"),
        (compiled_file(STOP, shape=(1,) * 9), "9 dimensions: up to 8"),
        (compiled_file(STOP, arena=-1), "-1 bytes"),
        (compiled_file(STOP, arena=16), "Output 'out' has its array at bytes 0x10 to 0x14 but region 1 has 0x10"),
        (compiled_file(STOP, dtype="STRING"), "type STRING"),
        (compiled_file(STOP, dtype="FLOAT32"), "type FLOAT32"),
        (compiled_file(STOP, dtype="RESOURCE"), "type RESOURCE"),
        (compiled_file(STOP, scale=float("nan")), "quantisation scale nan"),
        (compiled_file(STOP, scale=-1.0), "quantisation scale -1.0"),
        (compiled_file(STOP, offsets=7), "claims 7 offsets but holds 6"),
        (compiled_file(STOP, offsets=-1), "claims -1 offsets"),
        (compiled_file(()), "not NPU_OP_STOP"),
        (compiled_file((1 << 10, *STOP)), "Command 0x00000400 at word 0"),
        (compiled_file((1 << 15, *STOP)), "Command 0x00008000 at word 0"),
        (compiled_file((0x02, *STOP)), "uses register OFM_HEIGHT_M1 before setting it"),
    ],
)
def test_a_compiled_file_with_one_wrong_value_is_refused_for_it(data: bytes, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        read_compiled(data)


def test_a_boolean_tensor_is_read_as_bytes() -> None:
    assert str(read_compiled(compiled_file(STOP, dtype="BOOL")).inputs[0].dtype) == "uint8"


def test_a_payload_cut_off_at_any_byte_is_refused() -> None:
    payload = build_payload((0x00010001, *STOP), "ethos-u55-128")
    assert parse_payload(payload).words == (0x00010001, *STOP)
    for length in range(len(payload)):
        with pytest.raises(InputError):
            parse_payload(payload[:length])


def test_a_stream_of_random_words_is_refused() -> None:
    rng = random.Random(3)
    for _ in range(500):
        with pytest.raises(InputError):
            decode_words(tuple(rng.getrandbits(32) | 1 << 10 for _ in range(20)))


def test_a_stream_of_random_commands_is_decoded_or_refused() -> None:
    rng = random.Random(4)
    payload = parse_payload(read_tflite(load(COMPILED)).tensors[0].data)
    outcomes = set()
    for _ in range(500):
        words = list(payload.words)
        for _ in range(3):
            words[rng.randrange(len(words))] = words[rng.randrange(len(words))]
        outcomes.add(
            survives(lambda data: decode_words(struct.unpack(f"<{len(data) // 4}I", data)), struct.pack(f"<{len(words)}I", *words))
        )
    assert outcomes == {True, False}
