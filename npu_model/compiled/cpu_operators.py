"""CPU operators of a compiled network in its original model: which they are, and each as a model of its own.

A compiled network names a CPU operator by its code and its outputs' names, which compilation keeps. Only the model has its options and
constants. An operator may write the output of a RESHAPE after it: Vela 2.1.1 drops the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from npu_model.compiled.folded import constants
from npu_model.compiled.network import COPIES, CUSTOM_CODE, DATA_TYPES, STATE_TYPES, CpuOperator, initial_byte
from npu_model.errors import InputError
from npu_model.tflite.model import TfliteModel
from npu_model.tflite.record_reader import SUBGRAPH, RecordReader
from npu_model.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord
from npu_model.tflite.writer import write_tflite


class OperatorFinder:
    """Finds the operators of ``model`` that correspond to the CPU operators of a compiled network, each once and in order."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self._waiting = [index for index, operator in enumerate(model.operators) if operator.custom_code != CUSTOM_CODE]
        copies = [operator for operator in model.operators if operator.name in COPIES and operator.inputs and operator.outputs]
        self._copied = {model.tensors[one.outputs[0]].name: model.tensors[one.inputs[0]].name for one in copies}

    def find(self, step: CpuOperator) -> int:
        """Index of the next operator with the code and the outputs of ``step``; InputError if none is left."""
        names = tuple(binding.name for binding in step.outputs)
        sources = tuple(self._source(name) for name in names)
        for wanted in (names, sources):
            for index in self._waiting:
                operator = self._model.operators[index]
                written = tuple(self._model.tensors[output].name for output in operator.outputs if output >= 0)
                if operator.name == step.code and written == wanted:
                    self._waiting.remove(index)
                    return index
        outputs = ", ".join(map(repr, names))
        raise InputError(f"The model has no {step.code} with output {outputs}: give the model that the network was compiled from.")

    def _source(self, name: str) -> str:
        """The tensor whose bytes are copied to tensor ``name``. A cycle of names, which no valid model has, ends where it begins."""
        passed = {name}
        while (source := self._copied.get(name)) is not None and source not in passed:
            passed.add(name := source)
        return name


def are_placed(step: CpuOperator, states: Sequence[bool]) -> bool:
    """Whether the arena holds the states of an operator.

    ``states`` says which of its non-constant operands are states. Vela 5.2.0 lets the runtime place the states of CPU operators. InputError
    if their number differs.
    """
    if len(step.inputs) not in (len(states), len(states) - sum(states)):
        raise InputError(
            f"{step.code} reads {len(states)} variable tensors in the model but {len(step.inputs)} in the network: "
            "give the model that the network was compiled from."
        )
    return len(step.inputs) == len(states)


class OperatorState(Struct, frozen=True):
    """A tensor that keeps its content between inferences: its number in the model, and its initial bytes."""

    tensor: int
    content: bytes


class OperatorModel(Struct, frozen=True):
    """One operator as a .tflite model: its non-constant operands are the inputs, each tensor once, except for state.

    ``operands`` are the tensors of operands that are not constant, ``results`` the tensors of the outputs, in the operator's order.
    ``states`` has one entry per operand: None unless it keeps its content between inferences.
    """

    data: bytes
    operands: tuple[int, ...]
    results: tuple[int, ...]
    states: tuple[OperatorState | None, ...]


def operator_model(reader: RecordReader, index: int, given: Sequence[str]) -> OperatorModel:
    """Operator ``index`` of the reader's model with its options and quantisation. A network has the operands ``given`` by name.

    InputError if records cannot hold it.
    """
    operator = reader.operator(index)
    known = {tensor: record for tensor, record in zip(operator.inputs, constants(reader, operator.inputs, given), strict=True) if record}
    used = tuple(dict.fromkeys(tensor for tensor in operator.inputs + operator.outputs + operator.intermediates if tensor >= 0))
    number = {-1: -1} | {tensor: place for place, tensor in enumerate(used)}
    tensors = tuple(known.get(tensor) or reader.tensor(tensor) for tensor in used)
    operands = tuple(number[tensor] for tensor in operator.inputs if tensor >= 0 and not tensors[number[tensor]].data)
    results = tuple(number[tensor] for tensor in operator.outputs if tensor >= 0)
    model = ModelRecord(
        name="main",
        description="",
        tensors=tensors,
        operators=(
            replace(
                operator,
                inputs=tuple(number[tensor] for tensor in operator.inputs),
                outputs=tuple(number[tensor] for tensor in operator.outputs),
                intermediates=tuple(number[tensor] for tensor in operator.intermediates),
            ),
        ),
        inputs=tuple(dict.fromkeys(tensor for tensor in operands if not tensors[tensor].is_variable)),
        outputs=results,
        others=_bodies(reader, operator),
    )
    states = tuple(_state(reader, used[tensor]) for tensor in operands)
    return OperatorModel(write_tflite(model), operands, results, states)


def _bodies(reader: RecordReader, operator: OperatorRecord) -> tuple[SubgraphRecord, ...]:
    """The subgraphs besides the first, if the operator runs one; InputError if one has state that would be lost."""
    if not any(SUBGRAPH in field for field, _ in operator.fields):
        return ()
    for graph in reader.model.others:
        for tensor in graph.tensors:
            if tensor.is_variable or tensor.dtype in STATE_TYPES:
                raise InputError(
                    f"Subgraph {graph.name!r} keeps state in {tensor.name!r}: operators are executed one by one, "
                    "so that only the first subgraph may; pass the state as inputs and outputs."
                )
    return reader.others()


def _state(reader: RecordReader, index: int) -> OperatorState | None:
    tensor = reader.model.tensors[index]
    if not tensor.is_variable:
        return None
    dtype = DATA_TYPES.get(tensor.dtype)
    if dtype is None:
        raise InputError(f"Variable tensor {tensor.name!r} has type {tensor.dtype}: {', '.join(DATA_TYPES)} are known; change the network.")
    byte = initial_byte(dtype, tensor.zero_points[0] if tensor.zero_points else 0)
    return OperatorState(index, bytes([byte]) * (prod(tensor.shape) * dtype.bytes))
