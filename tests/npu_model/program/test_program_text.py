from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import ADDRESSES, DATA_TYPES, OPERATIONS
from reference_data import shared_data

from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.program import Binding, Control, ControlKind, Operation, Program, Quantisation, Region, RegionRole
from npu_model.program.text import parse_text, to_text

pytestmark = pytest.mark.law

GOLDEN = Path(__file__).parents[2] / "golden" / "program.txt"
BINDINGS = st.builds(
    Binding,
    name=st.text(),
    region=st.integers(0, 7),
    address=ADDRESSES,
    shape=st.lists(st.integers(0, 4096), max_size=6).map(tuple),
    dtype=DATA_TYPES,
    quantisation=st.none() | st.builds(Quantisation, st.floats(allow_nan=False), st.integers(-(1 << 31), 1 << 31)),
)
REGIONS = (Region(0, RegionRole.CONSTANTS, 4096), Region(1, RegionRole.ARENA, 65536), Region(2, RegionRole.FAST_SCRATCH, 0))


def rnnoise() -> Program:
    path = shared_data() / "fvp" / "streams" / "rnnoise_INT8.ethos-u55-128.vela500.tflite"
    return read_compiled(path.read_bytes()).programs[0]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), operations=st.lists(OPERATIONS, max_size=4), inputs=st.lists(BINDINGS, max_size=2))
def test_a_program_is_read_back_from_its_text(data: st.DataObject, operations: list[Operation], inputs: list[Binding]) -> None:
    count = len(operations)
    words = data.draw(st.lists(st.integers(0, 1 << 20), min_size=count, max_size=count).map(tuple))
    names = data.draw(st.just(()) | st.lists(st.text(), min_size=count, max_size=count).map(tuple))
    program = Program("ethos-u55-128", tuple(operations), words, REGIONS, tuple(inputs), tuple(inputs[:1]), names)
    text = to_text(program)
    parsed = parse_text(text)
    assert parsed == program
    assert parsed.names == program.names
    assert to_text(parsed) == text


def test_the_measured_programs_are_read_back_with_their_constants() -> None:
    files = sorted((shared_data() / "fvp" / "streams").glob("*.tflite"))
    assert files
    for path in files:
        for program in read_compiled(path.read_bytes()).programs:
            constants = program.region(0).content
            assert constants
            assert parse_text(to_text(program), constants) == program


def test_a_program_of_hundreds_of_operations_stays_readable() -> None:
    path = shared_data() / "fvp" / "streams" / "yolo-fastest_192_face_v4.ethos-u55-128.vela500.tflite"
    (program,) = read_compiled(path.read_bytes()).programs
    lines = to_text(program).splitlines()
    assert len(program.operations) > 400
    assert len(lines) < 5 * len(program.operations)
    assert max(len(line) for line in lines) < 140


def test_the_text_of_a_measured_program_is_the_golden_one() -> None:
    assert to_text(rnnoise()) == GOLDEN.read_text(encoding="utf-8")


def test_the_golden_text_is_its_own_text_again() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    program = parse_text(text)
    assert program.accelerator == "ethos-u55-128"
    assert len(program.kernels) == 48
    digest = next(line for line in text.splitlines() if "sha256=" in line)
    # Without the constants their hash is the one thing that the Program does not carry.
    assert to_text(program) == text.replace(digest, digest.partition(" sha256=")[0])


def test_constants_are_recognised_by_their_hash() -> None:
    regions = (Region(0, RegionRole.CONSTANTS, 3, b"abc"),)
    program = Program("ethos-u55-64", (Control(ControlKind.STOP, 0xFFFF),), (1,), regions)
    text = to_text(program)
    assert f"region 0 CONSTANTS 3 sha256={hashlib.sha256(b'abc').hexdigest()}" in text
    assert parse_text(text, b"abc") == program
    assert parse_text(text).region(0) == Region(0, RegionRole.CONSTANTS, 3)
    with pytest.raises(InputError, match=r"Line 2 .*SHA-256"):
        parse_text(text, b"abd")
    with pytest.raises(InputError, match="no region for the 3 bytes"):
        parse_text(to_text(replace(program, regions=())), b"abc")


HEAD = "npu-program 1 ethos-u55-128\n"


@pytest.mark.parametrize(
    ("text", "line", "pattern"),
    [
        ("", 1, "npu-program"),
        ("npu-program 2 ethos-u55-128\n", 1, "version 2"),
        ("npu-program one ethos-u55-128\n", 1, "'one' where number"),
        (HEAD + "  ifm\n", 2, "has no details"),
        (HEAD + "regoin 0 ARENA 16\n", 2, "'regoin'"),
        (HEAD + "region 0 ATTIC 16\n", 2, "'ATTIC' where one of CONSTANTS"),
        (HEAD + "region 0 ARENA\n", 2, "ends where number"),
        (HEAD + "region 0 ARENA 16 16\n", 2, "'16', which"),
        (HEAD + "region 0 CONSTANTS 16 sha256=12\n", 2, "'12' where digest"),
        (HEAD + "input 1+0x0 4 int8\n", 2, "has no name"),
        (HEAD + 'input 1+0x0 4 int9 "x"\n', 2, "'int9' where data type"),
        (HEAD + 'input 1+0x0 4 int8 "x\n', 2, "where name"),
        (HEAD + "#1 STOP words=1 parameter=0\n", 2, "#0 is due"),
        (HEAD + "#0 STOP parameter=0\n", 2, "no words="),
        (HEAD + "#0 STOP words=1 words=1 parameter=0\n", 2, "words= twice"),
        (HEAD + "#0 HALT words=1 parameter=0\n", 2, "'HALT' where one of STOP"),
        (HEAD + "#0 DMA words=1 from=0+0x0 to=1+0x0\n", 2, "where byte range"),
        (HEAD + "\n#0 DMA_WAIT words=1 outstanding=0\n  ifm\n", 4, "DMA_WAIT has no details"),
        (HEAD + "#0 CONV_2D.MAX words=1\n", 2, "no functions"),
        (HEAD + "#0 POOL.MEDIAN words=1\n", 2, "'MEDIAN' where one of MAX, AVERAGE"),
        (HEAD + "#0 POOL.MAX words=1\n", 2, "without ifm"),
        (HEAD + "#0 POOL.MAX words=1\n  blockdep 3\n  blockdep 3\n", 4, "'blockdep'"),
        (HEAD + "#0 POOL.MAX words=1\n  ifm 1+0x0 4x4 int8 NHWC strides=1,1,1\n", 3, "'4x4' where shape"),
        (HEAD + "#0 POOL.MAX words=1\n  window 2x2 pad=1,2\n", 3, "'1,2' where padding"),
        pytest.param(
            HEAD + f"region 0 ARENA {'9' * 5000}\n",
            2,
            "where number",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons read numbers of any length"),
        ),
    ],
)
def test_malformed_text_is_refused_with_its_line(text: str, line: int, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern) as caught:
        parse_text(text)
    assert str(caught.value).startswith(f"Line {line} of the program text ")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_text_is_read_or_refused_and_never_crashes(data: st.DataObject) -> None:
    text = GOLDEN.read_text(encoding="utf-8")[:3000]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 6)))
    damaged = text[:start] + data.draw(st.text('0123456789abx+-:,=.# \n"', max_size=4)) + text[end:]
    try:
        program = parse_text(damaged)
    except InputError:
        return
    assert parse_text(to_text(program)) == program
