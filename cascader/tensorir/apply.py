"""Striped groups as TensorIR: at each stripe every part computes its planned box, in a buffer of exactly the planned bytes.

The boxes come from the plan's own trace. A number that differs from stripe to stripe lies in a table, which is a constant of the function.
If a buffer is shorter than all its elements, an element lies at its index modulo the length. Copies into double buffers run a stripe before
the parts, and copies out run a stripe after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.intervals import Box, elements, hull
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import StripeBuffer
from cascader.plan.stripe_trace import StripedGroup, trace
from cascader.tensorir.compat import SRAM, load
from cascader.tensorir.part_body import ElementPlace, PartBody
from cascader.tensorir.stages import unique
from cascader.tensorir.te_frontend import TeGraph
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError

Array = npt.NDArray[Any]


class Applied(Struct, frozen=True, eq=False):
    """A function in TensorIR, and the plan's claims on it.

    ``claims`` holds the bytes of each tensor's buffer in the cascade memory, and ``work`` the multiply-accumulates (or the part's other
    unit) of each part, both by name. The function's parameters are the inputs, the constants and the outputs, in this order. If it
    ``counts``, an array of int64 with the executed work of each part follows. ``tables`` holds the values of constants outside the graph:
    the numbers of stripes. ``external`` names tensors outside the cascade memory. Their stripes have buffers of their own, such as
    ``X_in0`` in the group that begins with part 0.
    """

    module: Any
    claims: Mapping[str, int]
    work: Mapping[str, int]
    inputs: tuple[str, ...]
    constants: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: bool
    tables: Mapping[str, Array]
    external: frozenset[str] = frozenset()


def uncascaded(graph: TeGraph) -> tuple[StripedGroup, ...]:
    """Every part in a group of its own, in one stripe: the schedule without a cascade."""
    return tuple(StripedGroup(index, index, StripeConfig.even(part.shape, part.shape), {}) for index, part in enumerate(graph.affine.parts))


def apply(graph: TeGraph, groups: Sequence[StripedGroup], *, count: bool = False) -> Applied:
    """The schedule of groups that cover the graph, in order of execution.

    With ``count`` every part counts its work. InputError if the groups do not cover the graph, or if TensorIR cannot express a group.
    """
    parts = graph.affine.parts
    covered = [index for group in groups for index in range(group.first, group.last + 1)]
    if covered != list(range(len(parts))):
        raise InputError(f"The groups cover the parts {covered} of a graph of {len(parts)}: cover each once, in order.")
    numbers = _Numbers()
    cascades = [_Cascade(graph, group, numbers) for group in groups]
    external = frozenset(name for group in groups for name in group.external)
    inside = {buffer.tensor for cascade in cascades for buffer in cascade.buffers} - external
    own = [tensor for tensor in graph.affine.select(TensorKind.INTERMEDIATE) if tensor.name not in inside]
    table = unique("stripe_boxes", graph.stages.names.values())
    tables = {table: np.array(numbers.table, np.int32)} if numbers.table else {}
    function = _Function(graph)
    for name in (*graph.inputs, *graph.constants):
        function.parameter(name)
    if tables:
        numbers.buffer = function.writer.tensor(table, "int32", (len(numbers.table),))
    for name in graph.stages.outputs:
        function.parameter(name)
    if count:
        function.counters = function.writer.tensor("executed", "int64", (len(parts),))
    for tensor in own:
        function.allocated(tensor.name, "global" if tensor.name in external else SRAM)
    for cascade in cascades:
        cascade.write(function)
    claims = {cascade.names[buffer.tensor]: buffer.size for cascade in cascades for buffer in cascade.buffers}
    return Applied(
        module=load().tvm.IRModule({"main": function.writer.function(public="main", no_alias=True)}),
        claims=claims | {tensor.name: tensor.size for tensor in own if tensor.name not in external},
        work={parts[index].name: work for cascade in cascades for index, work in cascade.work().items()},
        inputs=graph.inputs,
        constants=(*graph.constants, *tables),
        outputs=graph.stages.outputs,
        counts=count,
        tables=tables,
        external=external,
    )


class _Function:
    """A function under construction: its whole tensors by name, and its counters of work, if any."""

    def __init__(self, graph: TeGraph) -> None:
        self.writer = Writer()
        self.graph = graph
        self.places: dict[str, ElementPlace] = {}
        self.counters: Any = None
        self._made = {name: buffer for buffer, name in graph.stages.names.items()}

    def dtype(self, tensor: str) -> str:
        """Type of a tensor's elements."""
        return str(self._made[tensor].dtype)

    def parameter(self, tensor: str) -> None:
        """A whole tensor that the caller passes in."""
        self.places[tensor] = ElementPlace.whole(self.writer.tensor(tensor, self.dtype(tensor), self._shape(tensor)))

    def allocated(self, tensor: str, scope: str) -> None:
        """A whole tensor that the function allocates."""
        self.places[tensor] = ElementPlace.whole(self.writer.allocate(tensor, self.dtype(tensor), self._shape(tensor), scope))

    def _shape(self, tensor: str) -> tuple[int, ...]:
        return self.graph.affine.tensor(tensor).shape


_Number = Callable[[Any], Any]
"""A number of a stripe, as a function of the stripe's turn in the order of execution."""


class _Numbers:
    """Numbers of stripes. A table gathers the numbers that differ between the stripes of a group."""

    def __init__(self) -> None:
        self.table: list[int] = []
        self.buffer: Any = None

    def of(self, values: Sequence[int]) -> _Number:
        """The number that takes ``values`` stripe by stripe."""
        return (lambda _: values[0]) if len(set(values)) == 1 else self.hidden(values)

    def hidden(self, values: Sequence[int]) -> _Number:
        """The number, always read from the table: TVM shrinks a buffer if it can see that a half is never used."""
        line = len(self.table)
        self.table += values
        return lambda step: self.buffer[step + line]


class _Boxes:
    """Boxes of a tensor, one for each stripe, as loops.

    ``lanes`` is the number of elements on the last axis, 1 if that differs between stripes.
    """

    def __init__(self, boxes: Sequence[Box], numbers: _Numbers) -> None:
        some = next((box for box in boxes if elements(box)), boxes[0])
        # An empty box is empty along its first axis alone, so that the other axes have the same interval in more stripes.
        filled = [box if elements(box) else ((some[0][0], some[0][0]), *some[1:]) for box in boxes]
        axes = list(zip(*filled, strict=True))
        self._axes = [(numbers.of([low for low, _ in own]), numbers.of([high - low for low, high in own])) for own in axes]
        last = axes[-1][0]
        self.lanes = last[1] - last[0] if set(axes[-1]) == {last} else 1

    def bounds(self, step: Any, lanes: int) -> list[tuple[str, Any, Any]]:
        """The loops of a stripe: name, first element, number. With ``lanes`` the loop along the last axis runs once."""
        loops = [(f"i{axis}", low(step), length(step)) for axis, (low, length) in enumerate(self._axes)]
        return [*loops[:-1], (*loops[-1][:2], 1)] if lanes > 1 else loops


class _Cascade:
    """A group's statements: for each of its stripes the copies in, the parts and the copies out."""

    def __init__(self, graph: TeGraph, group: StripedGroup, numbers: _Numbers) -> None:
        self._graph, self._group = graph, group
        traced = trace(graph.affine, group)
        self.buffers, self._made, self._filled = traced.buffers, traced.made, traced.filled
        self._steps = len(traced.work)
        self._output = graph.affine.parts[group.last].output
        self._boxes = {index: _Boxes(boxes, numbers) for index, boxes in traced.made.items()}
        tensors = [buffer.tensor for buffer in self.buffers]
        self._copied = {tensor: _Boxes(traced.filled[tensor], numbers) for tensor in tensors if tensor in group.external}
        self._slots = {buffer.tensor: numbers.hidden(self._fills(buffer)) for buffer in self.buffers if buffer.copies > 1}
        self.names = {tensor: self._name(tensor) for tensor in tensors}

    def _name(self, tensor: str) -> str:
        """Name of a tensor's stripe buffer."""
        if tensor not in self._group.external:
            return tensor
        return f"{tensor}_staged" if tensor == self._output else f"{tensor}_in{self._group.first}"

    def _fills(self, buffer: StripeBuffer) -> list[int]:
        """The half of a double buffer that holds each stripe. The halves take turns, except for stripes that need no new elements."""
        filled = np.cumsum([elements(box) > 0 for box in self._filled[buffer.tensor]])
        return [int(number) % buffer.copies for number in filled]

    def work(self) -> dict[int, int]:
        """The planned work of each part."""
        parts = self._graph.affine.parts
        return {index: int(parts[index].work * sum(map(elements, boxes))) for index, boxes in self._made.items()}

    def write(self, function: _Function) -> None:
        """All stripes."""
        copied_in = [tensor for tensor in self._copied if tensor != self._output]
        ahead, behind = int(any(tensor in self._slots for tensor in copied_in)), int(self._output in self._slots)
        buffers = {buffer: self._allocated(function, buffer) for buffer in self.buffers}
        turns = self._steps + ahead + behind
        with function.writer.loop("stripe", turns) if turns > 1 else nullcontext(0) as turn:

            def do(write: Callable[[Any, Mapping[str, ElementPlace]], None], *, after: int) -> None:
                """Write the statements for each stripe; the first stripe's turn comes ``after`` turns later."""
                step = turn - after if after else turn
                conditions = [*([step >= 0] if after else []), *([step < self._steps] if after < ahead + behind else [])]
                with function.writer.when(conditions):
                    write(step, function.places | {buffer.tensor: self._place(buffer, made, step) for buffer, made in buffers.items()})

            for tensor in copied_in:
                do(partial(self._copy, function, tensor), after=0 if tensor in self._slots else ahead)
            do(partial(self._parts, function), after=ahead)
            if self._output in self._copied:
                do(partial(self._copy, function, self._output), after=ahead + behind)

    def _allocated(self, function: _Function, buffer: StripeBuffer) -> Any:
        shape = (buffer.copies, *buffer.shape) if buffer.copies > 1 else buffer.shape
        return function.writer.allocate(self.names[buffer.tensor], function.dtype(buffer.tensor), shape, SRAM)

    def _place(self, buffer: StripeBuffer, made: Any, step: Any) -> ElementPlace:
        """Where the buffer holds its elements at a stripe."""
        ever = reduce(hull, self._filled[buffer.tensor])
        wraps = [length if high - low > length else 0 for (low, high), length in zip(ever, buffer.shape, strict=True)]
        origin = [0 if length else low for (low, _), length in zip(ever, wraps, strict=True)]
        slot = (self._slots[buffer.tensor](step),) if buffer.copies > 1 else ()
        return ElementPlace(made, tuple(origin), tuple(wraps), slot)

    def _copy(self, function: _Function, tensor: str, step: Any, places: Mapping[str, ElementPlace]) -> None:
        """Copy a stripe between a tensor's home and its buffer."""
        home, stripe = function.places[tensor], places[tensor]
        source, target = (stripe, home) if tensor == self._output else (home, stripe)
        with function.writer.nest(self._copied[tensor].bounds(step, 1)) as at:
            function.writer.store(target.buffer, target.index(at), source.load(at))

    def _parts(self, function: _Function, step: Any, places: Mapping[str, ElementPlace]) -> None:
        parts = self._graph.affine.parts
        for index in range(self._group.first, self._group.last + 1):
            part, boxes = parts[index], self._boxes[index]
            counter = None if function.counters is None else (function.counters, index)
            body = PartBody(function.writer, self._graph.stages, self._graph.match(part), places, boxes.lanes, counter)
            with function.writer.nest(boxes.bounds(step, boxes.lanes)) as at:
                body.write(at)
