"""The Ethos-U85's command streams: read, written, as text, and held against Vela's own listing."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import pytest
import vela_u85
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import U85_OPERATIONS
from reference_data import shared_data

from npu_model.accelerator import accelerator, require_use
from npu_model.command_stream import decode_words, encode_operations, parse_payload
from npu_model.command_stream.payload import config_word
from npu_model.command_stream.registers import PAYLOAD_BIT, LongRegister, ShortRegister
from npu_model.command_stream.u85.decode import ACCUMULATORS, UBLOCKS
from npu_model.command_stream.u85.layout import LONGS, SHORTS, field_bits
from npu_model.command_stream.windows import taken_apart
from npu_model.compiled.network import CUSTOM_CODE, read_compiled
from npu_model.errors import InputError
from npu_model.program import (
    AccumulatorInput,
    Control,
    ControlKind,
    ElementwiseKind,
    MapStorage,
    Operation,
    PoolKind,
    ResizeKind,
    Reverse,
    TableFormat,
    Transpose,
)
from npu_model.program.program import Program
from npu_model.program.text import to_text
from npu_model.tflite.model import read_tflite
from validation.fvp.references.records import read_stored, stored

pytestmark = pytest.mark.law

STOP = Control(ControlKind.STOP, 0xFFFF)
NAME = "ethos-u85-256"

_ROUNDINGS = "DOUBLE_SYMMETRIC", "NATURAL", "DOUBLE_ASYMMETRIC", "SYMMETRIC", "TRUNCATE_TO_ZERO", "TRUNCATE_TO_LOWER"
_COMPARISONS = {f"CMP_{name}": code for name, code in (("EQ", 16), ("NE", 17), ("GE", 18), ("GT", 19))}

_CODES: dict[str, dict[str, int]] = {
    "ACTIVATION_STORAGE": {"TILE2X2": 0, "CHAINED": MapStorage.CHAINED.code, "NONE": MapStorage.NONE.code},
    "ACTIVATION_TRANSPOSE": {one.name: one.code for one in Transpose},
    "ACTIVATION_REVERSE": {name: one.code for name, one in zip(("NONE", "H", "W", "C"), Reverse, strict=True)},
    "ACTIVATION_FUNCTION_LUT": {"NONE": 0} | {one.name: one.code for one in TableFormat if one is not TableFormat.OFM},
    "ACTIVATION_TYPE": {"UNSIGNED": 0, "SIGNED": 1},
    "ACTIVATION_PRECISION": {"B8": 0, "B16": 1, "B32": 2, "B64": 3},
    "ACTIVATION_FORMAT": {"NHWC": 0, "NHCWB16": 1},
    "ACTIVATION_CLIP_RANGE": {"B16": 0, "NONE": 1},
    "OFM_SCALE_MODE": {"PER_CHANNEL": 0, "GLOBAL": 1},
    "ROUND_MODE_OFM": {name: code for code, name in enumerate(_ROUNDINGS)},
    "ROUND_MODE_IFM": {"DOUBLE_SYMMETRIC": 0, "NATURAL": 1},
    "ACC_FORMAT": {name: ACCUMULATORS.index(one) for name, one in zip(("I32", "I48"), ACCUMULATORS, strict=True)},
    "ACC_INPUT": {one.name: one.code for one in AccumulatorInput},
    "ACC_OUTPUT": {"ENABLE": 0, "DISABLE": 1},
    "MICROBLOCK": {f"U{height}X{width}": code for code, (height, width) in enumerate(UBLOCKS)},
    "WEIGHT_ORDER": {"DEPTH_FIRST": 0, "PART_KERNEL_FIRST": 1},
    "KERNEL_DILATION": {"NONE": 0, "X2": 1},
    "KERNEL_DECOMPOSITION": {"D8X8": 0, "D4X4": 1},
    "WEIGHT_FORMAT": {"SWD": 0, "FWD": 1},
    "WEIGHT_SPARSITY": {"NONE": 0, "SPARSE_2_4": 1},
    "POOLING_MODE": {one.name: one.code for one in PoolKind},
    "RESIZE_MODE": {name: one.code for name, one in zip(("BILINEAR", "REPLICATE", "NEAREST"), ResizeKind, strict=True)},
    "ELEMENTWISE_MODE": {one.name: one.code for one in ElementwiseKind} | _COMPARISONS,
    "DMA_REGION_MODE": {"EXTERNAL": 0, "INTERNAL": 1},
    "DMA_STRIDE_MODE": {"D1": 0, "D2": 1, "D3": 2},
    "DMA_IDX_MODE": {"DISABLED": 0, "ENABLED": 1},
}
"""Codes of the names that Vela's listing gives, where they are named here too by the names here."""


@pytest.fixture(scope="module")
def listed() -> tuple[bytes, str]:
    """A network of the portfolio compiled for a U85, and Vela's listing of its stream."""
    return vela_u85.listed(LISTED, 256)


LISTED = "mobilenet_v3"


def streams(data: bytes) -> Iterator[tuple[int, ...]]:
    """The command streams of a compiled network."""
    model = read_tflite(data)
    for operator in model.operators:
        if operator.custom_code == CUSTOM_CODE:
            yield parse_payload(model.tensors[operator.inputs[0]].data).words


def listed_commands(text: str) -> Iterator[tuple[tuple[int, ...], str, list[str]]]:
    """Words, name and field values of each command of a listing."""
    for line in text.splitlines():
        found = re.match(r"0x[0-9a-f]+: (?:([0-9a-f]{8})|        ) ([0-9a-f]{4}) ([0-9a-f]{4}) - NPU_(?:SET|OP)_(\w+) +\d+(.*)", line)
        if found:
            payload, parameter, code, name, fields = found.groups()
            words = (int(parameter, 16) << 16 | int(code, 16), *([int(payload, 16)] if payload else []))
            yield words, name, [value.partition(" = ")[2] for value in fields.split(", ")[1:]]


def code_of(value: str) -> int:
    """The number that a listing gives, or of the name that it gives."""
    if re.fullmatch(r"-?\d+|0x[0-9a-f]+", value):
        return int(value, 0)
    prefix = max((one for one in _CODES if value.startswith(f"{one}_")), key=len)
    return _CODES[prefix][value.removeprefix(f"{prefix}_")]


def own_fields(words: tuple[int, ...]) -> tuple[str, list[int]]:
    """Name and field values of a command as they are read here."""
    code, parameter = words[0] & 0xFFFF & ~PAYLOAD_BIT, words[0] >> 16
    commands: tuple[ShortRegister | LongRegister, ...] = LONGS if len(words) == 2 else SHORTS
    register = next(command for command in commands if command == code)
    value = words[1] << 16 | parameter if len(words) == 2 else parameter
    return register.name, list(taken_apart(field_bits(register), value).values())


def test_each_command_is_what_velas_listing_says(listed: tuple[bytes, str]) -> None:
    data, text = listed
    commands = list(listed_commands(text))
    (words,) = streams(data)
    assert [word for command, *_ in commands for word in command] == list(words)
    compared = 0
    for command, name, values in commands:
        ours, fields = own_fields(command)
        assert ours == name
        if fields and "BROADCAST" not in name:
            assert fields == [code_of(value) for value in values], name
            compared += len(fields)
    assert compared > 100


def test_the_listings_network_comes_back_from_its_operations_and_its_file(listed: tuple[bytes, str]) -> None:
    data, _ = listed
    (words,) = streams(data)
    operations, counts = decode_words(words, "u85")
    assert sum(counts) == len(words)
    again, _ = encode_operations(operations, "u85")
    assert decode_words(again, "u85")[0] == operations
    (program,) = read_compiled(data).programs
    assert program.accelerator == NAME
    assert read_stored(stored(program)) == replace(program, regions=tuple(replace(one, content=b"") for one in program.regions))


@settings(max_examples=50)
@given(st.lists(U85_OPERATIONS, max_size=4))
def test_decoding_encoded_operations_gives_them_back(operations: list[Operation]) -> None:
    words, counts = encode_operations((*operations, STOP), "u85")
    assert decode_words(words, "u85") == ((*operations, STOP), counts)


@settings(max_examples=50)
@given(U85_OPERATIONS, U85_OPERATIONS)
def test_operations_have_the_same_text_only_if_they_are_equal(one: Operation, other: Operation) -> None:
    first, second = (to_text(Program(NAME, (operation,), (1,), ())) for operation in (one, other))
    assert (first == second) == (one == other)


def test_published_streams_come_back_from_their_operations() -> None:
    files = sorted((shared_data() / "fvp").glob("u85*/*.tflite"))
    assert len(files) == 18
    for file in files:
        for words in streams(file.read_bytes()):
            operations, _ = decode_words(words, "u85")
            assert decode_words(encode_operations(operations, "u85")[0], "u85")[0] == operations


def test_config_words_are_those_of_published_streams() -> None:
    sizes = {128: 0x20000117, 256: 0x20000118, 512: 0x20001119, 1024: 0x2000251A, 2048: 0x2000261B}
    assert {macs: config_word(f"ethos-u85-{macs}") for macs in sizes} == sizes


def test_a_branch_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="NPU_OP_BRANCH at word 0 is not read yet"):
        decode_words((PAYLOAD_BIT | 0x100, 0), "u85")


def test_an_unknown_parameter_bit_is_damage() -> None:
    words = struct.unpack("<1I", struct.pack("<I", 0x0040_0006))
    with pytest.raises(InputError, match="NPU_OP_ELEMENTWISE has parameter 0x40"):
        decode_words(words, "u85")


def test_what_is_missing_for_a_u85_is_named(listed: tuple[bytes, str]) -> None:
    network = read_compiled(listed[0])
    assert accelerator(NAME).commands == "u85"
    with pytest.raises(InputError, match="Programs of the ethos-u85-256 are not searched for yet"):
        require_use(network.programs[0].accelerator, "schedule")
