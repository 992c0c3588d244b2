"""The order in which a network reads and assigns its resource variables: an order that Vela can keep, and a check that Vela kept it.

Only the handle of a variable connects its READ_VARIABLE to its ASSIGN_VARIABLE. Vela runs reads first and assignments last. So Vela gets a
network in which no variable is read after its assignment: such a read copies the assigned value.
"""

from __future__ import annotations

from contextlib import suppress

from cascader.frontends.vela.model_changes import Rewriter, rewritten
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.compiled.resource_variable import ASSIGN, READ
from npu_model.compiled.resources import handles, require_whole, uses_resources
from npu_model.errors import InputError
from npu_model.tflite.model import model_of
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import OperatorRecord
from npu_model.tflite.schema import tflite

_READ, _ASSIGN = tflite.BuiltinOperator.READ_VARIABLE, tflite.BuiltinOperator.ASSIGN_VARIABLE


def with_states_read_first(model: bytes) -> bytes:
    """The .tflite ``model`` in which each resource variable is read before it is assigned, and assigned once. It may be unchanged."""
    parsed = model_of(model)
    if not uses_resources(operator.code for operator in parsed.operators):
        return model
    with suppress(InputError):
        names = handles(RecordReader(model))
        held: dict[str, int] = {}
        for one in parsed.operators:
            require_whole(one)
        kept = {names[one.inputs[0]]: one.inputs for one in parsed.operators if one.code == ASSIGN and one.inputs[0] in names}

        def in_turn(made: Rewriter, operator: OperatorRecord) -> bool:
            name = names.get(operator.inputs[0], "") if operator.inputs else ""
            if operator.code == _READ and name in held:
                made.reshape(held[name], operator.outputs[0])
                return True
            if operator.code == _ASSIGN and name:
                held[name] = operator.inputs[1]
                # If two operators assign one variable, the last one counts.
                return operator.inputs != kept[name]
            return False

        return rewritten(model, (in_turn,)) or model
    return model


def state_fault(network: CompiledNetwork) -> str:
    """The first resource variable that is read after its assignment, as a clause; "" if there is none."""
    assigned: set[str] = set()
    for step in network.steps:
        if isinstance(step, CpuOperator) and step.code == READ and step.resource in assigned:
            return f"the resource variable {step.resource!r} is read after the operator that assigns it"
        if isinstance(step, CpuOperator) and step.code == ASSIGN:
            assigned.add(step.resource)
    return ""
