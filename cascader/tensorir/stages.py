"""Stages: a Tensor Expression graph as plain loops, one Stage per ComputeOp, with every operand's index expressions.

TVM itself lowers the graph (``te.create_prim_func``), so the analysed code is the code that would be compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from typing import Any

from msgspec import Struct, field

from cascader.tensorir.compat import buffer_of, load, rewrite, shape_of, walk
from npu_model.errors import InputError


class ReduceAxis(Struct, frozen=True):
    """A loop of a reduction: its variable, which counts from 0, and its number of iterations."""

    var: Any
    extent: int


class Stage(Struct, frozen=True, eq=False):
    """One ComputeOp: ``value`` is stored at the output's element ``axes``. A reduction starts from ``init`` and updates the element.

    ``axes`` has one variable per axis of ``shape``. In a reduction ``value`` loads the current element of ``output``. ``attrs`` are the
    attributes that ``te.compute`` got.
    """

    name: str
    axes: tuple[Any, ...]
    shape: tuple[int, ...]
    reduce_axes: tuple[ReduceAxis, ...]
    init: Any
    value: Any
    output: Any
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_reduction(self) -> bool:
        """Whether an element is a reduction (a sum or another combination) of several elements."""
        return bool(self.reduce_axes)

    def loads(self) -> tuple[Any, ...]:
        """Every read of another stage's output or of a placeholder, in order."""
        return tuple(node for node in walk(self.value, load().load) if not buffer_of(node).same_as(self.output))

    def at(self, indices: Sequence[Any]) -> Any:
        """``value`` with expressions in the place of the axes."""
        return substitute(self.value, self.axes, indices)


class StageGraph(Struct, frozen=True, eq=False):
    """Stages in one valid order, and the buffers of the placeholders, by ``names``.

    The names of placeholders and stages are those in the Tensor Expressions, with a number at the end if a name is used twice.
    """

    inputs: tuple[Any, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    names: Mapping[Any, str]

    def name(self, buffer: Any) -> str:
        """Name of a buffer of the graph."""
        return self.names[buffer]

    def producers(self) -> dict[str, Stage]:
        """The stage that makes a tensor. It has the tensor's name."""
        return {stage.name: stage for stage in self.stages}

    def readers(self, name: str) -> tuple[Stage, ...]:
        """The stages that read a tensor, in order."""
        return tuple(stage for stage in self.stages if any(self.names[buffer_of(node)] == name for node in stage.loads()))


def substitute(expression: Any, variables: Sequence[Any], values: Sequence[Any]) -> Any:
    """The expression with a value in the place of each variable."""
    tirx = load().tirx
    found = {
        variable: tirx.const(value, "int32") if isinstance(value, int) else value for variable, value in zip(variables, values, strict=True)
    }
    return rewrite(expression, {load().var: lambda node: found.get(node, node)})


def read_stages(inputs: Sequence[Any], outputs: Sequence[Any]) -> StageGraph:
    """The graph from Tensor Expression placeholders to its output tensors.

    InputError if an output is a placeholder, a placeholder is missing, or an operation is not a ``te.compute`` of one output.
    """
    compat = load()
    for tensor in outputs:
        if tensor.op in [operand.op for operand in inputs]:
            raise InputError(f"The output {tensor.op.name!r} is a placeholder: give a tensor that is computed.")
    _check_operations(inputs, outputs)
    function = compat.te.create_prim_func([*inputs, *outputs])
    blocks = [block for block in walk(function.body, compat.block) if block.name_hint != "root"]
    names: dict[Any, str] = {}
    buffers = [parameter_buffer(function, index) for index in range(len(inputs))]
    for buffer in buffers:
        names[buffer] = unique(str(buffer.name), names.values())
    stages = []
    for block in blocks:
        buffer = block.body.buffer
        names[buffer] = unique(str(buffer.name) if buffer not in buffers else str(block.name_hint), names.values())
        stages.append(_stage(block, names[buffer]))
    made = [parameter_buffer(function, len(inputs) + index) for index in range(len(outputs))]
    return StageGraph(tuple(buffers), tuple(stages), tuple(names[buffer] for buffer in made), names)


def parameter_buffer(function: Any, index: int) -> Any:
    """The buffer of a function's parameter."""
    parameter = function.params[index]
    return parameter if hasattr(parameter, "shape") else function.buffer_map[parameter]


def _stage(block: Any, name: str) -> Stage:
    spatial = [axis for axis in block.iter_vars if int(axis.iter_type) == 0]
    reduce = [axis for axis in block.iter_vars if int(axis.iter_type) != 0]
    return Stage(
        name=name,
        axes=tuple(axis.var for axis in spatial),
        shape=shape_of(block.body.buffer),
        reduce_axes=tuple(ReduceAxis(axis.var, int(axis.dom.extent)) for axis in reduce),
        init=None if block.init is None else block.init.value,
        value=block.body.value,
        output=block.body.buffer,
        attrs={str(key): value for key, value in block.annotations.items()},
    )


def unique(name: str, taken: Collection[str]) -> str:
    """The name; if it is taken, a number is added."""
    return next(candidate for candidate in chain([name], (f"{name}_{number}" for number in count(1))) if candidate not in taken)


def _check_operations(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    te = load().te
    given = {tensor.op for tensor in inputs}
    waiting, seen = [tensor.op for tensor in outputs], set()
    while waiting:
        operation = waiting.pop()
        if operation in seen or operation in given:
            continue
        seen.add(operation)
        if isinstance(operation, te.PlaceholderOp):
            raise InputError(f"The placeholder {operation.name!r} is read but not given: pass it as an input or as a constant.")
        if not isinstance(operation, te.ComputeOp) or operation.num_outputs != 1:
            raise InputError(f"Operation {operation.name!r} is not a te.compute with 1 output: write it as one.")
        waiting += [tensor.op for tensor in operation.input_tensors]
