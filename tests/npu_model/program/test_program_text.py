from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import ADDRESSES, DATA_TYPES, OPERATIONS
from reference_data import shared_data

from npu_model.compiled.network import read_compiled
from npu_model.program import Binding, Control, ControlKind, Operation, Program, Quantisation, Region, RegionRole
from npu_model.program.text import to_text

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


def drawn(data: st.DataObject, operations: list[Operation], inputs: list[Binding]) -> Program:
    count = len(operations)
    words = data.draw(st.lists(st.integers(0, 1 << 20), min_size=count, max_size=count).map(tuple))
    names = data.draw(st.just(()) | st.lists(st.text(), min_size=count, max_size=count).map(tuple))
    return Program("ethos-u55-128", tuple(operations), words, REGIONS, tuple(inputs), tuple(inputs[:1]), names)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), operations=st.lists(OPERATIONS, max_size=4), inputs=st.lists(BINDINGS, max_size=2))
def test_programs_have_the_same_text_only_if_they_are_equal(
    data: st.DataObject, operations: list[Operation], inputs: list[Binding]
) -> None:
    program = drawn(data, operations, inputs)
    assert to_text(program) == to_text(replace(program))
    if not operations:
        return
    at = data.draw(st.integers(0, len(operations) - 1))
    other = changed(data, operations[at])
    changed_program = replace(program, operations=(*operations[:at], other, *operations[at + 1 :]))
    assert (to_text(changed_program) == to_text(program)) == (other == operations[at])


def changed(data: st.DataObject, operation: Operation) -> Operation:
    """The operation with one field of another one of its kind."""
    name = data.draw(st.sampled_from(operation.__struct_fields__))
    other = data.draw(OPERATIONS.filter(lambda one: type(one) is type(operation)))
    try:
        return replace(operation, **{name: getattr(other, name)})
    except ValueError:  # fields that do not go together
        return other


def test_a_program_of_hundreds_of_operations_stays_readable() -> None:
    path = shared_data() / "fvp" / "streams" / "yolo-fastest_192_face_v4.ethos-u55-128.vela500.tflite"
    (program,) = read_compiled(path.read_bytes()).programs
    lines = to_text(program).splitlines()
    assert len(program.operations) > 400
    assert len(lines) < 5 * len(program.operations)
    assert max(len(line) for line in lines) < 140


def test_the_text_of_a_measured_program_is_the_golden_one() -> None:
    assert to_text(rnnoise()) == GOLDEN.read_text(encoding="utf-8")


def test_constants_are_shown_by_their_hash() -> None:
    regions = (Region(0, RegionRole.CONSTANTS, 3, b"abc"),)
    text = to_text(Program("ethos-u55-64", (Control(ControlKind.STOP, 0xFFFF),), (1,), regions))
    assert f"region 0 CONSTANTS 3 sha256={hashlib.sha256(b'abc').hexdigest()}" in text
