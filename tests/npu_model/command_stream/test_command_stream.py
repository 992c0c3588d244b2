from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from few_examples import few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import OPERATIONS
from reference_data import shared_data

from npu_model.accelerator import accelerator_names
from npu_model.command_stream import build_payload, decode_words, encode_operations, parse_payload
from npu_model.command_stream.families import command_set
from npu_model.command_stream.payload import build_second
from npu_model.command_stream.registers import FIRST_SET, PAYLOAD_BIT, Cmd0, Cmd1, RegisterFile
from npu_model.errors import InputError
from npu_model.program import (
    Activation,
    ActivationKind,
    Broadcast,
    ByteRange,
    Control,
    ControlKind,
    DataType,
    DmaOperation,
    DmaWait,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    KernelWait,
    Layout,
    Operation,
    OperationKind,
    Padding,
    PoolKind,
    Scale,
    Shram,
    Strides,
    Tiles,
    Upscale,
)
from npu_model.shapes import Shape3D
from npu_model.tflite.model import read_tflite

pytestmark = pytest.mark.law

INT8 = DataType(8, signed=True)
STOP = Control(ControlKind.STOP, 0xFFFF)


def feature_map(shape: Shape3D, base: int = 0) -> FeatureMap:
    return FeatureMap(1, shape, INT8, Layout.NHWC, Tiles.single(shape, base), Strides(shape.width * shape.depth, shape.depth, 1))


POOL = KernelOperation(
    kind=OperationKind.POOL,
    pool=PoolKind.MAX,
    ifm=feature_map(Shape3D(8, 8, 16)),
    ofm=feature_map(Shape3D(4, 4, 16), 1024),
    block=Shape3D(4, 4, 16),
    shram=Shram(8, 16),
    activation=Activation(ActivationKind.NONE, -128, 127),
    kernel=Kernel(2, 2, 2, 2),
)
ADD = replace(
    POOL,
    kind=OperationKind.ELEMENTWISE,
    pool=None,
    elementwise=ElementwiseKind.ADD,
    ifm=feature_map(Shape3D(4, 4, 16)),
    ifm2=feature_map(Shape3D(4, 4, 16)),
    kernel=Kernel(),
)
CONV = replace(POOL, kind=OperationKind.CONV_2D, pool=None, weights=(ByteRange(0, 0, 64),), scales=(ByteRange(0, 64, 224),))


def payloads(path: Path) -> list[bytes]:
    model = read_tflite(path.read_bytes())
    return [model.tensors[op.inputs[0]].data for op in model.operators if op.custom_code == "ethos-u"]


def registers(words: tuple[int, ...]) -> list[str]:
    """The commands of a stream by name, in order."""
    names, position = [], 0
    while position < len(words):
        long = bool(words[position] & PAYLOAD_BIT)
        names.append((Cmd1 if long else Cmd0)(words[position] & 0x3FF).name)
        position += 2 if long else 1
    return names


def commands(words: tuple[int, ...], counts: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """The commands of each operation, in numerical order."""
    groups, end, position = [], 0, 0
    for count in counts:
        end += count
        group = []
        while position < end:
            length = 2 if words[position] & PAYLOAD_BIT else 1
            group.append(words[position : position + length])
            position += length
        groups.append(sorted(group))
    return groups


@settings(max_examples=150, deadline=None, derandomize=True)
@given(operations=st.lists(OPERATIONS, max_size=4), stop=st.booleans())
def test_decoding_an_encoded_stream_gives_its_operations(operations: list[Operation], *, stop: bool) -> None:
    operations = (*operations, STOP) if stop else tuple(operations)
    words, counts = encode_operations(operations)
    assert decode_words(words) == (operations, counts)
    assert sum(counts) == len(words)


def read_anew(words: tuple[int, ...]) -> list[Operation]:
    """Each operation read from the registers as they are, whatever the one before it was."""
    registers, found, position = RegisterFile(), [], 0
    while position < len(words):
        word = words[position]
        code, parameter = word & 0x3FF, word >> 16
        if word & PAYLOAD_BIT:
            registers.set_long(Cmd1(code), parameter, words[position + 1])
        elif code >= FIRST_SET:
            registers.set_short(Cmd0(code), parameter)
        else:
            found.append(command_set("u55").decode(registers, Cmd0(code), parameter))
        position += 2 if word & PAYLOAD_BIT else 1
    return found


MOVES = st.lists(st.tuples(st.sampled_from(["IFM", "IFM2", "OFM"]), st.integers(0, 3), st.integers(0, (1 << 40) - 1)), max_size=3)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(operations=st.lists(OPERATIONS, min_size=1, max_size=3), moves=st.lists(MOVES, max_size=4), blockdep=st.booleans())
def test_an_operation_with_other_bases_than_the_one_before_is_read_as_the_registers_say(
    operations: list[Operation], moves: list[list[tuple[str, int, int]]], *, blockdep: bool
) -> None:
    words = [*encode_operations(operations)[0]]
    again = words[-1]
    for one in moves:
        for prefix, tile, base in one:
            words += [base >> 32 << 16 | PAYLOAD_BIT | Cmd1[f"{prefix}_BASE{tile}"], base & 0xFFFFFFFF]
        words += [1 << 16 | Cmd0.BLOCKDEP] if blockdep and len(one) == 2 else []
        words.append(again)
    assert list(decode_words(tuple(words))[0]) == read_anew(tuple(words))


def test_the_measured_streams_survive_decoding_and_encoding_but_for_the_order_of_sets() -> None:
    files = sorted((shared_data() / "fvp" / "streams").glob("*.tflite"))
    assert files
    for path in files:
        for payload in payloads(path):
            theirs = parse_payload(payload).words
            operations, counts = decode_words(theirs)
            ours, our_counts = encode_operations(operations)
            assert our_counts == counts
            assert decode_words(ours) == (operations, counts)
            assert commands(ours, counts) == commands(theirs, counts)


@pytest.mark.parametrize(("name", "optimise", "core"), few_cases(accelerator_names("u55"), ["Size", "Performance"], ["regor", "legacy"]))
def test_a_stream_of_either_vela_core_survives_decoding_and_encoding_but_for_the_order_of_sets(
    name: str, optimise: str, core: str, tmp_path: Path
) -> None:
    # Softmax, average pooling and elementwise operations: every kind of operation is in it.
    model = shared_data() / "models" / "resnet8_i8.tflite"
    options = ["--accelerator-config", name, "--optimise", optimise, "--output-dir", str(tmp_path)]
    options += ["--debug-force-legacy-core"] if core == "legacy" else []
    subprocess.run([sys.executable, "-m", "ethosu.vela", str(model), *options], check=True, capture_output=True)
    (payload,) = payloads(tmp_path / "resnet8_i8_vela.tflite")
    parsed = parse_payload(payload)
    operations, counts = decode_words(parsed.words)
    ours, our_counts = encode_operations(operations)
    assert parsed.accelerator == name
    assert {type(op) for op in operations} >= {KernelOperation, DmaOperation, DmaWait, Control}
    assert our_counts == counts
    assert decode_words(ours) == (operations, counts)
    assert commands(ours, counts) == commands(parsed.words, counts)


def test_a_repeated_operation_costs_one_word() -> None:
    assert encode_operations([POOL, POOL])[1][1] == 1


def test_a_register_is_set_again_only_when_its_value_changes() -> None:
    moved = replace(POOL, ofm=feature_map(Shape3D(4, 4, 16), 2048))
    words, counts = encode_operations([POOL, moved])
    assert registers(words[counts[0] :]) == ["OFM_BASE0", "POOL"]
    assert decode_words(words)[0] == (POOL, moved)


def test_the_sets_of_an_operation_come_in_the_documented_order() -> None:
    names = registers(encode_operations([ADD])[0])
    landmarks = ["IFM_REGION", "IFM_PRECISION", "IFM_UPSCALE", "OFM_REGION", "OFM_PRECISION", "ACTIVATION", "OFM_BLK_HEIGHT_M1"]
    landmarks += ["AB_START", "IFM2_REGION", "IFM2_BROADCAST", "OFM_SCALE", "OPA_SCALE", "BLOCKDEP", "ELEMENTWISE"]
    assert [name for name in names if name in landmarks] == landmarks
    assert names[:5] == ["IFM_REGION", "IFM_BASE0", "IFM_BASE1", "IFM_BASE2", "IFM_BASE3"]


def test_an_elementwise_operation_clears_the_upscaling_of_an_earlier_one() -> None:
    upscaled = replace(POOL, upscale=Upscale.NEAREST, ifm=feature_map(Shape3D(4, 4, 16)))
    words, counts = encode_operations([upscaled, ADD])
    assert "IFM_UPSCALE" in registers(words[counts[0] :])


def test_the_sets_of_an_operation_are_done_before_the_waits_that_hold_it_up() -> None:
    words, counts = encode_operations([KernelWait(0), DmaWait(0), POOL])
    assert registers(words)[-3:] == ["KERNEL_WAIT", "DMA_WAIT", "POOL"]
    assert counts[1:] == (1, 1)


def test_a_transfer_to_shram_goes_to_the_internal_region() -> None:
    words, _ = encode_operations([DmaOperation(ByteRange(0, 0, 256), 0x5800, to_shram=True)])
    assert 0x103 << 16 | Cmd0.DMA0_DST_REGION in words


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [
        (replace(POOL, padding=Padding(top=200)), "IFM_PAD_TOP 200.* 0 to 127"),
        (replace(POOL, block=Shape3D(33, 4, 16)), "OFM_BLK_HEIGHT 33.* 1 to 32"),
        (replace(POOL, blockdep=4), "BLOCKDEP 4.* 0 to 3"),
        (replace(POOL, shram=Shram(64, 16)), "IFM_IB_END 64.* 0 to 63"),
        (replace(POOL, kernel=Kernel(2, 2, 5, 2)), "vertical stride 5.* 1 to 4"),
        (replace(POOL, kernel=Kernel(2, 2, 2, 2, 3, 1)), "vertical dilation 3.* 1 to 2"),
        (replace(POOL, ofm=replace(POOL.ofm, zero_point=40000)), "OFM_ZERO_POINT 40000"),
        (replace(POOL, ofm=replace(POOL.ofm, zero_point=1 << 15)), "OFM_ZERO_POINT 32768.* -32768 to 32767"),
        (replace(POOL, ofm=replace(POOL.ofm, region=8)), "OFM_REGION 8.* 0 to 7"),
        (replace(POOL, ofm=replace(POOL.ofm, dtype=DataType(4, signed=True))), "4 bits"),
        (replace(POOL, ofm=replace(POOL.ofm, shape=Shape3D(0, 4, 16))), "OFM_HEIGHT 0.* 1 to 65536"),
        (replace(POOL, ifm=feature_map(Shape3D(9, 8, 16))), "ifm .*registers mean"),
        (replace(POOL, padding=Padding(top=8)), "IFM below 1 x 1"),
        (replace(POOL, pool=None), "which function"),
        (replace(POOL, weights=CONV.weights), "weights .*registers mean"),
        (replace(CONV, weights=()), "0 weight ranges for 1 core"),
        (replace(CONV, scales=(ByteRange(0, 0, 1 << 20),)), "SCALE_LENGTH 1048576.* 0 to 1048575"),
        (replace(CONV, parallel_mode=1, weights=CONV.weights * 2, scales=(ByteRange(0, 0, 16), ByteRange(1, 16, 32))), "scales "),
        (replace(ADD, kernel=Kernel(3, 3)), "kernel .*registers mean"),
        (replace(ADD, ifm2=None), "one operand"),
        (replace(ADD, broadcast=Broadcast(height=True)), "ifm2 .*registers mean"),
        (replace(ADD, ifm2=None, scalar=1 << 16), "IFM2_SCALAR 65536"),
        (DmaOperation(ByteRange(0, 0, 16), 0, 3, to_shram=True), "destination_region 3"),
        (DmaOperation(ByteRange(0, -16, 16), 0), "DMA0_SRC -16"),
        (DmaWait(16), "DMA_WAIT 16.* 0 to 15"),
    ],
)
def test_what_the_registers_cannot_say_is_refused_in_one_sentence(operation: Operation, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern) as caught:
        encode_operations([operation])
    assert str(caught.value).startswith("Operation 0 (")
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    ("signed", "scalar", "sign"),
    [(False, 0, 0), (False, 255, 0), (False, -1, 1), (True, 0, 1), (True, (1 << 15) - 1, 1), (True, 1 << 15, 0)],
)
def test_a_scalar_has_the_sign_of_the_ifm_unless_its_value_needs_the_other(signed: bool, scalar: int, sign: int) -> None:  # noqa: FBT001  # a row of a table
    """Bit 0 of IFM2_PRECISION is the sign."""
    ifm = replace(ADD.ifm, dtype=DataType(8, signed=signed))
    words, _ = encode_operations([replace(ADD, ifm=ifm, ifm2=None, scalar=scalar)])
    (precision,) = [word >> 16 for word in words if word & 0xFFFF == Cmd0.IFM2_PRECISION]
    assert precision & 1 == sign


@pytest.mark.parametrize("stride", [-(1 << 39), -1, 0, (1 << 39) - 1])
def test_a_stride_has_forty_bits_the_highest_of_which_is_its_sign(stride: int) -> None:
    stepping = replace(POOL, ofm=replace(POOL.ofm, strides=Strides(stride, 16, 1)))
    assert decode_words(encode_operations([stepping])[0])[0] == (stepping,)
    for beyond in (-(1 << 39) - 1, 1 << 39):
        with pytest.raises(InputError, match=f"STRIDE_Y {beyond}.* {-(1 << 39)} to {(1 << 39) - 1}"):
            encode_operations([replace(POOL, ofm=replace(POOL.ofm, strides=Strides(beyond, 16, 1)))])


@pytest.mark.parametrize("register", [Cmd0.DMA0_SRC_REGION, Cmd0.DMA0_DST_REGION])
@pytest.mark.parametrize("mode", [1, 2, 3])
def test_a_transfer_of_two_or_three_dimensions_is_refused(register: Cmd0, mode: int) -> None:
    words = list(encode_operations([DmaOperation(ByteRange(0, 0, 16), 64)])[0])
    place = next(at for at, word in enumerate(words) if word & 0xFFFF == register)
    words[place] |= mode << 9 + 16
    with pytest.raises(InputError, match="2D or 3D mode"):
        decode_words(tuple(words))


@pytest.mark.parametrize("name", accelerator_names("u55"))
def test_a_second_payload_says_what_it_was_built_of_and_is_refused_where_a_word_of_its_head_is_another(name: str) -> None:
    words = encode_operations([POOL, STOP])[0]
    built = build_second(words, name, 4096, separate=False)
    found = parse_payload(built)
    assert (found.accelerator, found.words) == (name, words)
    for place in range(1, 10):
        damaged = bytearray(built)
        damaged[4 * place] ^= 1
        with pytest.raises(InputError, match="The COP2 payload is not laid out"):
            parse_payload(bytes(damaged))


def test_a_minimum_has_no_scale_of_its_own_and_clears_one_that_is_set() -> None:
    least = replace(ADD, elementwise=ElementwiseKind.MIN, ofm_scale=Scale(0, 0))
    assert "OFM_SCALE" not in registers(encode_operations([least])[0])
    assert "OFM_SCALE" in registers(encode_operations([replace(least, ofm_scale=Scale(1, 0))])[0])
    scaled = replace(ADD, ofm_scale=Scale(3, 2))
    (_, again), _ = decode_words(encode_operations([scaled, least])[0])
    assert again == least


def test_nothing_may_follow_the_stop() -> None:
    with pytest.raises(InputError, match=r"Operation 1 follows NPU_OP_STOP"):
        encode_operations([STOP, POOL])


def test_a_stream_of_sixteen_mebibytes_is_too_long_for_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="16777216 bytes"):
        decode_words((0,) * (1 << 22))
    # Four million operations take a while to encode: a smaller bound shows the same.
    monkeypatch.setattr("npu_model.command_stream.encode.MAX_STREAM_BYTES", 64)
    assert len(encode_operations([KernelWait(0)] * 15)[0]) == 15
    with pytest.raises(InputError, match="has 64 bytes: the NPU reads less than 64"):
        encode_operations([KernelWait(0)] * 16)


@pytest.mark.parametrize("name", accelerator_names("u55"))
@pytest.mark.parametrize("count", [0, 1, 70000])
def test_the_payload_is_the_one_that_vela_builds(name: str, count: int) -> None:
    from ethosu.vela.api import NpuAccelerator, npu_create_driver_payload  # noqa: PLC0415  # only this test needs Vela

    words = list(range(count))
    vela_name = "Ethos_" + name.removeprefix("ethos-").upper().replace("-", "_")
    payload = build_payload(words, name)
    assert payload == npu_create_driver_payload(words, NpuAccelerator[vela_name])
    parsed = parse_payload(payload)
    assert (parsed.accelerator, parsed.words) == (name, tuple(words))
    assert (len(payload) - 4 * count) % 16 == 0


def test_an_unknown_accelerator_has_no_payload() -> None:
    with pytest.raises(InputError, match="ethos-u99-128"):
        build_payload([], "ethos-u99-128")
