"""A Part as TensorIR statements: all its stages for one element, or for all channels of one position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from msgspec import Struct

from cascader.tensorir.compat import buffer_of, load, rewrite, walk
from cascader.tensorir.stages import Stage, StageGraph, substitute
from cascader.tensorir.te_frontend import Match
from cascader.tensorir.writer import Writer
from npu_model.errors import InputError


class ElementPlace(Struct, frozen=True):
    """The storage of a tensor: along axis i element e is at e - ``origin[i]``, modulo ``wraps[i]`` if that is not 0.

    ``slot`` is the current half of a double buffer.
    """

    buffer: Any
    origin: tuple[int, ...]
    wraps: tuple[int, ...]
    slot: tuple[Any, ...] = ()

    @classmethod
    def whole(cls, buffer: Any) -> ElementPlace:
        """The storage of a whole tensor."""
        nothing = (0,) * len(buffer.shape)
        return cls(buffer, nothing, nothing)

    def index(self, at: Sequence[Any]) -> list[Any]:
        """The buffer index of an element of the tensor."""
        tirx = load().tirx
        found = list(self.slot)
        for index, origin, length in zip(at, self.origin, self.wraps, strict=True):
            shifted = index - origin if origin else index
            found.append(tirx.truncmod(shifted, tirx.const(length, "int32")) if length else shifted)
        return found

    def load(self, at: Sequence[Any]) -> Any:
        """The expression that reads an element of the tensor."""
        return self.buffer[tuple(self.index(at))]


@dataclass(slots=True)
class PartBody:
    """The statements of a part for one element, or for ``lanes`` elements of its last axis from that element on.

    ``places`` holds the storage of its tensors, by the names that its stages use. A ``counter``, an element of a buffer of int64, counts
    the part's work: the updates of its one accumulation, or else the work of each element.
    """

    writer: Writer
    graph: StageGraph
    match: Match
    places: Mapping[str, ElementPlace]
    lanes: int
    counter: tuple[Any, int] | None
    lane: Any = field(init=False)
    _loops: list[Any] = field(init=False, default_factory=list)
    """Variables of the accumulations around the expression that is being written."""

    def __post_init__(self) -> None:
        self.lane = load().var("lane", "int32") if self.lanes > 1 else load().tirx.const(0, "int32")

    def write(self, at: Sequence[Any]) -> None:
        """Make the element ``at`` of the part's output."""
        output = self.match.output
        at = [*at[:-1], at[-1] + self.lane] if self.lanes > 1 else at
        value = self._accumulated(output, at) if output.is_reduction else self._lowered(output.at(at))
        place = self.places[output.name]
        self._store(place.buffer, place.index(at), value, work=0 if self._counts_updates else self.match.work)

    @property
    def _counts_updates(self) -> bool:
        """Whether the work is the updates of one accumulation."""
        loops = [prod(axis.extent for axis in stage.reduce_axes) for stage in self.match.stages if stage.is_reduction]
        return loops == [self.match.work]

    def _lowered(self, expression: Any) -> Any:
        """The expression on the function's own buffers; the accumulations that it needs are written first."""
        tirx = load().tirx
        # Only the chosen branch may be read: the other one may lie outside the tensor.
        expression = rewrite(expression, {tirx.Select: lambda node: tirx.if_then_else(node.condition, node.true_value, node.false_value)})
        return rewrite(expression, {load().load: self._operand})

    def _operand(self, node: Any) -> Any:
        if buffer_of(node) not in self.graph.names:
            return node
        name = self.graph.name(buffer_of(node))
        inner = {stage.name: stage for stage in self.match.stages[:-1]}
        if name not in inner:
            return self.places[name].load(node.indices)
        stage = inner[name]
        return self._accumulated(stage, node.indices) if stage.is_reduction else self._lowered(stage.at(node.indices))

    def _accumulated(self, stage: Stage, indices: Sequence[Any]) -> Any:
        """Write an accumulation and return the element of the accumulator that holds its result."""
        if any(variable in self._loops for index in indices for variable in walk(index, load().var)):
            raise InputError(f"Stage {stage.name!r} is accumulated in the loops of another accumulation: make them two Parts.")
        total = self.writer.allocate(f"{stage.name}_acc", str(stage.output.dtype), (self.lanes,), "local")
        variables = [axis.var for axis in stage.reduce_axes]
        value = rewrite(stage.at(indices), {load().load: lambda node: total[self.lane] if buffer_of(node).same_as(stage.output) else node})
        self._loops += variables
        value = self._lowered(value)
        del self._loops[len(self._loops) - len(variables) :]
        self._store(total, [self.lane], self._lowered(stage.init))
        with self.writer.nest([(str(axis.var.name), 0, axis.extent) for axis in stage.reduce_axes]) as loops:
            self._store(total, [self.lane], substitute(value, variables, loops), work=int(self._counts_updates))
        return total[self.lane]

    def _store(self, buffer: Any, index: Sequence[Any], value: Any, *, work: int = 0) -> None:
        """Store an element for every lane, and count each one if it is work."""
        if self.lanes == 1:
            self._counted(buffer, index, value, work)
            return
        with self.writer.loop("lane", self.lanes) as lane:
            own = [substitute(expression, [self.lane], [lane]) for expression in (*index, value)]
            self._counted(buffer, own[:-1], own[-1], work)

    def _counted(self, buffer: Any, index: Sequence[Any], value: Any, work: int) -> None:
        self.writer.store(buffer, index, value)
        if work and self.counter is not None:
            counters, slot = self.counter
            self.writer.store(counters, slot, counters[slot] + self.writer.constant(work))
