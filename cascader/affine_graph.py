"""AffineGraph: parts with a Propagator per input, and N-dimensional tensors; nothing of any device and nothing of any front end.

What a RowGraph says of rows alone, an AffineGraph says of every axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from cascader.boxes import Box, clip, moved, whole
from cascader.graph import TensorKind
from cascader.propagator import Propagator
from npu_model.errors import InputError


@dataclass(frozen=True, slots=True)
class AffineTensor:
    """An array of ``shape`` elements of ``element_size`` bytes."""

    name: str
    kind: TensorKind
    shape: tuple[int, ...]
    element_size: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * self.element_size


@dataclass(frozen=True, slots=True)
class AffineInput:
    """A tensor that a part reads, and which of its elements some output elements need."""

    tensor: str
    propagator: Propagator


@dataclass(frozen=True, slots=True)
class AffinePart:
    """An operator that makes an array of ``shape``, which lies at ``offset`` in the tensor ``output``.

    ``shape`` is the output's and ``offset`` zero for all but the pieces of a concatenation. ``work`` is what one element
    costs, in multiply-accumulates or whatever the device counts. A stripe begins at multiples of ``align`` along each
    axis. ``payload`` is what the device or the front end knows of the part; nothing here reads it.
    """

    name: str
    inputs: tuple[AffineInput, ...]
    output: str
    shape: tuple[int, ...]
    offset: tuple[int, ...] = ()
    work: int = 1
    align: tuple[int, ...] = ()
    payload: object = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, default in (("offset", 0), ("align", 1)):
            if not getattr(self, name):
                object.__setattr__(self, name, (default,) * len(self.shape))

    @property
    def whole(self) -> Box:
        """All that the part makes, in its own coordinates, in which propagators count."""
        return whole(self.shape)

    def written(self, box: Box) -> Box:
        """Where a box of the part lies in its output tensor."""
        return moved(box, self.offset)

    def making(self, box: Box) -> Box:
        """What the part makes of a box of its output tensor, from multiples of ``align`` on; empty if nothing."""
        own = clip(moved(box, tuple(-start for start in self.offset)), self.whole)
        return tuple((low // step * step, high) if low < high else (low, low) for (low, high), step in zip(own, self.align, strict=True))


@dataclass(frozen=True, slots=True)
class AffineGraph:
    """Parts in one valid order of execution, and their tensors.

    A tensor may have several producers (the pieces of a concatenation) and any number of readers. Raises InputError if a
    name is missing or used twice, ranks do not agree, or a tensor is read before it is written.
    """

    parts: tuple[AffinePart, ...]
    tensors: tuple[AffineTensor, ...]
    _tensors: dict[str, AffineTensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tensors", {tensor.name: tensor for tensor in self.tensors})
        for what, given in (("Part", self.parts), ("Tensor", self.tensors)):
            names = [item.name for item in given]
            twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
            if twice is not None:
                raise InputError(f"{what} {twice!r} appears twice: names are unique, rename one.")
        made = {tensor.name for tensor in self.tensors if tensor.kind not in (TensorKind.INTERMEDIATE, TensorKind.OUTPUT)}
        for part in self.parts:
            _check_part(self, part, made)
            made.add(part.output)

    def tensor(self, name: str) -> AffineTensor:
        """The tensor of this name; InputError if there is none."""
        if name not in self._tensors:
            raise InputError(f"Tensor {name!r} is not in the graph of {len(self.tensors)} tensors: use one of its names.")
        return self._tensors[name]

    def producers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that write the tensor."""
        return tuple(index for index, part in enumerate(self.parts) if part.output == tensor)

    def consumers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that read the tensor."""
        return tuple(index for index, part in enumerate(self.parts) if any(operand.tensor == tensor for operand in part.inputs))


def _check_part(graph: AffineGraph, part: AffinePart, made: set[str]) -> None:
    output = graph.tensor(part.output)
    ranks = {len(part.shape), len(part.offset), len(part.align), len(output.shape)}
    if len(ranks) != 1 or clip(part.written(part.whole), whole(output.shape)) != part.written(part.whole):
        raise InputError(f"Part {part.name!r} makes {part.shape} at {part.offset} of a tensor of {output.shape}: put it inside.")
    if output.kind is TensorKind.CONSTANT:
        raise InputError(f"Part {part.name!r} writes tensor {part.output!r}, which is constant: give it another output.")
    for operand in part.inputs:
        wanted = (len(graph.tensor(operand.tensor).shape), len(part.shape))
        have = (operand.propagator.inputs, operand.propagator.outputs)
        if have != wanted:
            raise InputError(f"Part {part.name!r} has a Propagator of {have} input and output axes for {wanted}: make them equal.")
        if operand.tensor not in made:
            raise InputError(f"Part {part.name!r} reads tensor {operand.tensor!r} before any part has written it: reorder the parts.")
