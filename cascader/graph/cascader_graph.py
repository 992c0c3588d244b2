"""CascaderGraph: Parts and the Tensors between them, in the nouns of TVM RFC 0037.

Nothing here knows a device: what a Part computes is in its ``payload``, which only the device's own package reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from cascader.graph.intervals import Box, clip, is_empty, whole
from cascader.graph.part import Operand, Part, Tensor, TensorKind
from npu_model.errors import InputError
from npu_model.values import dataclass

__all__ = ["CascaderGraph", "Operand", "Part", "Tensor", "TensorKind"]


@dataclass(frozen=True, slots=True)
class CascaderGraph:
    """Parts in one valid order of execution, and their tensors.

    A tensor may have several producers (a concatenation is written piece by piece) and may be read and written by one
    Part. A Part depends on every earlier Part that wrote what it reads, read what it overwrites, or wrote what it
    writes: the order given is the meaning, and any order that keeps these dependencies means the same.

    Raises InputError if a name is used twice or missing, a tensor is read that nothing has written, or a part's propagators do not fit
    its tensors.
    """

    parts: tuple[Part, ...]
    tensors: tuple[Tensor, ...]
    _tensors: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    _indices: dict[str, int] = field(init=False, repr=False, compare=False)
    _users: dict[str, tuple[list[int], list[int]]] = field(init=False, repr=False, compare=False)
    """Part indices that (write, read) each tensor, ascending."""

    def __post_init__(self) -> None:
        _check_names("Part", [part.name for part in self.parts])
        _check_names("Tensor", [tensor.name for tensor in self.tensors])
        for tensor in self.tensors:
            _check_tensor(tensor)
        _check_dataflow(self)
        object.__setattr__(self, "_tensors", {tensor.name: tensor for tensor in self.tensors})
        object.__setattr__(self, "_indices", {part.name: index for index, part in enumerate(self.parts)})
        object.__setattr__(self, "_users", _users(self))
        for part in self.parts:
            if part.shape:
                _check_axes(self, part)

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name; InputError if there is none."""
        if name not in self._tensors:
            raise InputError(f"Tensor {name!r} is not in the graph of {len(self.tensors)} tensors: use one of its names.")
        return self._tensors[name]

    def index(self, part: str) -> int:
        """Position of the part of this name; InputError if there is none."""
        if part not in self._indices:
            raise InputError(f"Part {part!r} is not in the graph of {len(self.parts)} parts: use one of its names.")
        return self._indices[part]

    def producers(self, tensor: str) -> tuple[Part, ...]:
        """The parts that write a byte of the tensor, in order."""
        return tuple(self.parts[index] for index in self.writers(self.tensor(tensor).name))

    def consumers(self, tensor: str) -> tuple[Part, ...]:
        """The parts that read the tensor, in order."""
        return tuple(self.parts[index] for index in self.readers(self.tensor(tensor).name))

    def writers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that write a byte of the tensor."""
        return tuple(self._users[tensor][0])

    def readers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that read the tensor."""
        return tuple(self._users[tensor][1])

    def demand(self, operand: Operand, box: Box) -> Box:
        """The box of an operand that a part needs for a box of its own; empty for an empty box."""
        bounds = operand.bounds or whole(self.tensor(operand.tensor).shape)
        return clip(operand.propagator.reach(box), bounds) if not is_empty(box) else tuple((low, low) for low, _ in bounds)

    def select(self, *kinds: TensorKind) -> Iterator[Tensor]:
        """The tensors of these kinds, in order."""
        return (tensor for tensor in self.tensors if tensor.kind in kinds)


def _users(graph: CascaderGraph) -> dict[str, tuple[list[int], list[int]]]:
    users: dict[str, tuple[list[int], list[int]]] = {tensor.name: ([], []) for tensor in graph.tensors}
    for index, part in enumerate(graph.parts):
        for name in dict.fromkeys(part.outputs):
            users[name][0].append(index)
        for name in dict.fromkeys(part.inputs):
            users[name][1].append(index)
    return users


def _check_names(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} {name!r} appears twice: names are unique, rename one.")
        seen.add(name)


def _check_tensor(tensor: Tensor) -> None:
    if tensor.size < 1 or tensor.element_size < 1:
        raise InputError(f"Tensor {tensor.name!r} has {tensor.size} bytes of {tensor.element_size}-byte elements: both must be 1 or more.")


def _check_dataflow(graph: CascaderGraph) -> None:
    """Every operand exists, constants are never written, and what is read has been written or was there at the start."""
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    written = {name for name, kind in kinds.items() if kind in (TensorKind.INPUT, TensorKind.VARIABLE, TensorKind.CONSTANT)}
    for part in graph.parts:
        for name in part.inputs + part.outputs:
            if name not in kinds:
                raise InputError(f"Part {part.name!r} uses tensor {name!r}, which is not in the graph: add it.")
        for name in part.inputs:
            if name not in written:
                raise InputError(f"Part {part.name!r} reads tensor {name!r} before any part has written it: reorder the parts.")
        for name in part.outputs:
            if kinds[name] is TensorKind.CONSTANT:
                raise InputError(f"Part {part.name!r} writes tensor {name!r}, which is constant: give it another output.")
        written.update(part.outputs)
    for tensor in graph.select(TensorKind.OUTPUT):
        if tensor.name not in written:
            raise InputError(f"No part writes the output tensor {tensor.name!r}: remove the output or add its part.")


def _check_axes(graph: CascaderGraph, part: Part) -> None:
    """The part lies inside its output tensor, and each propagator has the axes of the tensors that it is between."""
    output = graph.tensor(part.output)
    ranks = {len(axes) for axes in (part.shape, part.offset, part.step, part.align, output.shape)}
    if len(ranks) != 1 or clip(part.written(part.whole), whole(output.shape)) != part.written(part.whole):
        raise InputError(f"Part {part.name!r} makes {part.shape} at {part.offset} of a tensor of {output.shape}: put it inside.")
    for operand in part.operands:
        wanted = (len(graph.tensor(operand.tensor).shape), len(part.shape))
        have = (operand.propagator.inputs, operand.propagator.outputs)
        if have != wanted or len(operand.bounds) not in {0, wanted[0]}:
            raise InputError(f"Part {part.name!r} has a Propagator of {have} input and output axes for {wanted}: make them equal.")
