"""CascaderGraph: Parts, with a Propagator for each input, and the Tensors between them, in the nouns of TVM RFC 0037.

Nothing here knows a device: the computation of a Part is in its ``payload``, which only the device's own package reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from math import prod

from msgspec import Struct

from cascader.graph.intervals import Box, clip, is_empty, whole
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import Rational
from npu_model.errors import InputError
from npu_model.shapes import ceil_div, round_up


class TensorKind(Enum):
    """The origin of a tensor's bytes, and how long they are needed.

    INPUT tensors are filled before the first Part runs, OUTPUT tensors are read after the last one. VARIABLE tensors keep their bytes from
    one inference to the next. CONSTANT tensors are read-only and need no bytes of the arena.
    """

    INPUT = "input"
    OUTPUT = "output"
    INTERMEDIATE = "intermediate"
    VARIABLE = "variable"
    CONSTANT = "constant"

    @property
    def is_there_at_first(self) -> bool:
        """Whether the arena holds the tensor before the first Part runs."""
        return self in (TensorKind.INPUT, TensorKind.VARIABLE)

    @property
    def stays_to_the_end(self) -> bool:
        """Whether the arena must hold the tensor after the last Part."""
        return self in (TensorKind.OUTPUT, TensorKind.VARIABLE)


class Tensor(Struct, frozen=True):
    """A range of memory with a meaning: ``size`` bytes; ``shape`` in elements of ``element_size`` bytes.

    The size is at least the shape's bytes, and more if the layout pads (NHCWB16 rounds channels up to 16).
    """

    name: str
    kind: TensorKind
    size: int
    shape: tuple[int, ...]
    element_size: int

    @staticmethod
    def dense(name: str, kind: TensorKind, shape: tuple[int, ...], element_size: int = 1) -> Tensor:
        """A tensor of the bytes of its elements."""
        return Tensor(name, kind, prod(shape) * element_size, shape, element_size)


class Operand(Struct, frozen=True):
    """A tensor that a part reads, and the elements of it that some output elements need.

    ``bounds`` is the visible part of the tensor; padding surrounds it. Empty: the whole tensor.
    """

    tensor: str
    propagator: Propagator
    bounds: Box = ()


class Part(Struct, frozen=True):
    """One operator: the tensors it reads, in operand order, the tensors it writes, and its description for the device (``payload``).

    A part that may be cut along any axes (:meth:`striped`) has more fields. It makes an array of ``shape`` in its only output: element i
    lies at ``offset + i * step``. Operands of a concatenation have an offset, and parts of a tensor that is written in turns have a step.
    ``propagators`` say, input by input, which elements an element needs, ``bounds`` the visible part of each input. ``work`` is the cost of
    one element, in multiply-accumulates or the device's own unit. Stripes begin and end at multiples of ``align``; a part that cannot be
    cut has its shape for this.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    payload: object = None
    propagators: tuple[Propagator, ...] = ()
    bounds: tuple[Box, ...] = ()
    shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    align: tuple[int, ...] = ()
    work: Rational = 1

    @staticmethod
    def striped(  # noqa: PLR0913  # each is a fact of its own, most have a default
        name: str,
        operands: tuple[Operand, ...],
        output: str,
        shape: tuple[int, ...],
        *,
        offset: tuple[int, ...] = (),
        step: tuple[int, ...] = (),
        align: tuple[int, ...] = (),
        work: Rational = 1,
    ) -> Part:
        """A part with a Propagator for each input, and no payload; by default the output tensor is its own, and it may be cut anywhere."""
        return Part(
            name=name,
            inputs=tuple(operand.tensor for operand in operands),
            outputs=(output,),
            propagators=tuple(operand.propagator for operand in operands),
            bounds=tuple(operand.bounds for operand in operands),
            shape=shape,
            offset=offset or (0,) * len(shape),
            step=step or (1,) * len(shape),
            align=align or (1,) * len(shape),
            work=work,
        )

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs with their propagators; empty for a part without propagators."""
        return tuple(Operand(*given) for given in zip(self.inputs, self.propagators, self.bounds, strict=False))

    @property
    def output(self) -> str:
        """The only output of a part with propagators."""
        return self.outputs[0]

    @property
    def whole(self) -> Box:
        """The whole result of a part, in its own coordinates, which propagators use."""
        return whole(self.shape)

    def written(self, box: Box) -> Box:
        """The hull of a box of the part in the coordinates of its output tensor."""
        return tuple(
            (start + low * step, start + (high - 1) * step + 1) if low < high else (start + low * step, start + low * step)
            for (low, high), start, step in zip(box, self.offset, self.step, strict=True)
        )

    def making(self, box: Box) -> Box:
        """The part's stripe that makes all its elements in a box of the output tensor; empty without such elements."""
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


class CascaderGraph(Struct, frozen=True, dict=True):
    """Parts in one valid order of execution, and their tensors.

    A tensor may have several producers (a concatenation is written piece by piece) and may be read and written by one Part. A Part depends
    on every earlier Part that wrote what it reads, read what it overwrites, or wrote what it writes: the order given is the meaning, and
    any order that keeps these dependencies has the same meaning.

    Raises InputError if a name is used twice or missing, a tensor is read that nothing has written, or a part's propagators do not fit its
    tensors.
    """

    parts: tuple[Part, ...]
    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        _check_names("Part", [part.name for part in self.parts])
        _check_names("Tensor", [tensor.name for tensor in self.tensors])
        for tensor in self.tensors:
            _check_tensor(tensor)
        _check_dataflow(self)
        for part in self.parts:
            if part.shape:
                _check_axes(self, part)

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {part.name: index for index, part in enumerate(self.parts)}

    @cached_property
    def _users(self) -> dict[str, tuple[list[int], list[int]]]:
        """Part indices that (write, read) each tensor, ascending."""
        return _users(self)

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
    """InputError unless every operand exists, constants are never written, and every read follows a write or initial content."""
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
    """Check that the part lies inside its output tensor, and that each propagator has the axes of its two tensors."""
    output = graph.tensor(part.output)
    ranks = {len(axes) for axes in (part.shape, part.offset, part.step, part.align, output.shape)}
    if len(ranks) != 1 or clip(part.written(part.whole), whole(output.shape)) != part.written(part.whole):
        raise InputError(f"Part {part.name!r} makes {part.shape} at {part.offset} of a tensor of {output.shape}: put it inside.")
    for operand in part.operands:
        wanted = (len(graph.tensor(operand.tensor).shape), len(part.shape))
        have = (operand.propagator.inputs, operand.propagator.outputs)
        if have != wanted or len(operand.bounds) not in {0, wanted[0]}:
            raise InputError(f"Part {part.name!r} has a Propagator of {have} input and output axes for {wanted}: make them equal.")
