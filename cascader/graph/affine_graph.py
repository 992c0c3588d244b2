"""AffineGraph: parts with a Propagator per input, and N-dimensional tensors; nothing of any device and nothing of any front end.

What a RowGraph says of rows alone, an AffineGraph says of every axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.intervals import Box, clip, is_empty, whole
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import Rational
from npu_model.errors import InputError
from npu_model.shapes import ceil_div, round_up


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
    """A tensor that a part reads, and which of its elements some output elements need.

    ``bounds`` is what the part sees of the tensor: beyond it is padding. Empty for all of it.
    """

    tensor: str
    propagator: Propagator
    bounds: Box = ()


@dataclass(frozen=True, slots=True)
class AffinePart:
    """An operator that makes an array of ``shape`` in the tensor ``output``.

    Its element i lies at ``offset + i * step``: zero and one for all but the pieces of a concatenation, and those of a
    resized tensor that is written in turns. ``work`` is what one element costs, in multiply-accumulates or whatever the
    device counts. Stripes begin and end at multiples of ``align``; a part that cannot be cut has its shape for this.
    ``payload`` is what the device or the front end knows of the part; nothing here reads it.
    """

    name: str
    inputs: tuple[AffineInput, ...]
    output: str
    shape: tuple[int, ...]
    offset: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    work: Rational = 1
    align: tuple[int, ...] = ()
    payload: object = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, default in (("offset", 0), ("step", 1), ("align", 1)):
            if not getattr(self, name):
                object.__setattr__(self, name, (default,) * len(self.shape))

    @property
    def whole(self) -> Box:
        """All that the part makes, in its own coordinates, in which propagators count."""
        return whole(self.shape)

    def written(self, box: Box) -> Box:
        """The hull of where a box of the part lies in its output tensor."""
        return tuple(
            (start + low * step, start + (high - 1) * step + 1) if low < high else (start + low * step, start + low * step)
            for (low, high), start, step in zip(box, self.offset, self.step, strict=True)
        )

    def making(self, box: Box) -> Box:
        """The part's stripe that makes all that is its own of a box of the output tensor; empty if nothing is."""
        own = clip(
            tuple(
                (ceil_div(low - start, step), ceil_div(high - start, step))
                for (low, high), start, step in zip(box, self.offset, self.step, strict=True)
            ),
            self.whole,
        )
        return ((0, 0),) * len(self.shape) if is_empty(own) else self.aligned(own)

    def aligned(self, box: Box) -> Box:
        """The box with its ends at multiples of ``align``, or at the end of the part."""
        return tuple(
            (low // step * step, min(size, round_up(high, step)))
            for (low, high), step, size in zip(box, self.align, self.shape, strict=True)
        )


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

    def demand(self, operand: AffineInput, box: Box) -> Box:
        """What a part needs of an input for a box of its own; empty for an empty box."""
        bounds = operand.bounds or whole(self.tensor(operand.tensor).shape)
        return clip(operand.propagator.reach(box), bounds) if not is_empty(box) else tuple((low, low) for low, _ in bounds)

    def producers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that write the tensor."""
        return tuple(index for index, part in enumerate(self.parts) if part.output == tensor)

    def consumers(self, tensor: str) -> tuple[int, ...]:
        """Positions of the parts that read the tensor."""
        return tuple(index for index, part in enumerate(self.parts) if any(operand.tensor == tensor for operand in part.inputs))


def _check_part(graph: AffineGraph, part: AffinePart, made: set[str]) -> None:
    output = graph.tensor(part.output)
    ranks = {len(axes) for axes in (part.shape, part.offset, part.step, part.align, output.shape)}
    if len(ranks) != 1 or clip(part.written(part.whole), whole(output.shape)) != part.written(part.whole):
        raise InputError(f"Part {part.name!r} makes {part.shape} at {part.offset} of a tensor of {output.shape}: put it inside.")
    if output.kind is TensorKind.CONSTANT:
        raise InputError(f"Part {part.name!r} writes tensor {part.output!r}, which is constant: give it another output.")
    for operand in part.inputs:
        wanted = (len(graph.tensor(operand.tensor).shape), len(part.shape))
        have = (operand.propagator.inputs, operand.propagator.outputs)
        if have != wanted or len(operand.bounds) not in {0, wanted[0]}:
            raise InputError(f"Part {part.name!r} has a Propagator of {have} input and output axes for {wanted}: make them equal.")
        if operand.tensor not in made:
            raise InputError(f"Part {part.name!r} reads tensor {operand.tensor!r} before any part has written it: reorder the parts.")
