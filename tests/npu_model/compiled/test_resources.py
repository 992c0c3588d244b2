"""Resource variables of a file: their handles, and what they hold before the first inference."""

from __future__ import annotations

import pytest
from state_networks import States, with_state

from npu_model.compiled.resources import handles, resource_variables, uses_resources
from npu_model.errors import LimitError
from npu_model.program import DataType
from npu_model.tflite.record_reader import RecordReader

TYPES = {"INT8": DataType(8, signed=True)}


@pytest.mark.parametrize("order", ["ra", "ar", "rar", "arra"])
@pytest.mark.parametrize("number", [1, 2])
def test_all_handles_of_a_state_are_of_one_variable_that_holds_what_call_once_assigns(order: str, number: int) -> None:
    reader = RecordReader(with_state(order, handles=number))
    assert uses_resources(operator.code for operator in reader.model.operators)
    assert len(handles(reader)) == number
    assert set(handles(reader).values()) == {"state"}
    found = resource_variables(reader, TYPES)
    assert {(one.name, one.content) for one in found.values()} == {("state", bytes([5]) * 1 * 4 * 4 * 8)}


@pytest.mark.parametrize("order", ["ra", "ar"])
def test_a_state_that_nothing_begins_holds_its_tensors_first_byte(order: str) -> None:
    """The tensor is the one that the first operator copies from the state, or to it."""
    net = States()
    for letter in order:
        (net.read if letter == "r" else net.assign)(net.handle())
    reader = RecordReader(net.finish(once=False))
    copied = next(one for one in reader.model.operators if one.code in ("READ_VARIABLE", "ASSIGN_VARIABLE"))
    index = copied.outputs[0] if copied.code == "READ_VARIABLE" else copied.inputs[1]
    for first_byte, byte in (({index: 7}, 7), ({index + 1: 7}, 0), (None, 0)):
        assert {one.content for one in resource_variables(reader, TYPES, first_byte).values()} == {bytes([byte]) * 128}


def test_a_state_is_refused_that_is_read_in_another_size_than_it_has() -> None:
    net = States()
    handle = net.handle()
    net.read(handle)
    reader = RecordReader(net.finish())
    assert resource_variables(reader, TYPES)
    with pytest.raises(LimitError, match=r"has 128 bytes and 'held_.*' 256"):
        resource_variables(reader, {"INT8": DataType(16, signed=True)})
