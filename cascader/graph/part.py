"""Tensors, and Parts with a Propagator for each input: the nouns of TVM RFC 0037, for the NPU and for any device."""

from __future__ import annotations

from enum import Enum
from math import prod

from cascader.graph.intervals import Box, clip, is_empty, whole
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import Rational
from npu_model.shapes import ceil_div, round_up
from npu_model.values import dataclass


class TensorKind(Enum):
    """Where a tensor's bytes come from and how long they are needed.

    INPUT tensors are filled before the first Part runs, OUTPUT tensors are read after the last one. VARIABLE tensors keep their
    bytes from one inference to the next. CONSTANT tensors are read-only and take no room in the arena.
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


@dataclass(frozen=True, slots=True)
class Tensor:
    """A range of memory with a meaning: ``size`` bytes; ``shape`` in elements of ``element_size`` bytes.

    The size is at least what the shape needs, more where the layout pads (NHCWB16 rounds channels up to 16).
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


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a part reads, and which of its elements some output elements need.

    ``bounds`` is what the part sees of the tensor: beyond it is padding. Empty for all of it.
    """

    tensor: str
    propagator: Propagator
    bounds: Box = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One operator: the tensors it reads, in operand order, the tensors it writes, and what the device knows of it (``payload``).

    A part that may be cut along any axes (:meth:`striped`) says more. It makes an array of ``shape`` in its only output: element i lies at
    ``offset + i * step``. Pieces of a concatenation have an offset, and those of a tensor that is written in turns a step.
    ``propagators`` say, input by input, what an element needs, ``bounds`` what the part sees of each input. ``work`` is what one element
    costs, in multiply-accumulates or whatever the device counts. Stripes begin and end at multiples of ``align``; a part that cannot be cut
    has its shape for this.
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
        payload: object = None,
    ) -> Part:
        """A part with a Propagator for each input; by default all of the output tensor is its own, and it may be cut anywhere."""
        return Part(
            name=name,
            inputs=tuple(operand.tensor for operand in operands),
            outputs=(output,),
            payload=payload,
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
        """The inputs with their propagators; none of a part that has no propagators."""
        return tuple(Operand(*given) for given in zip(self.inputs, self.propagators, self.bounds, strict=False))

    @property
    def output(self) -> str:
        """The only output of a part with propagators."""
        return self.outputs[0]

    @property
    def whole(self) -> Box:
        """All that the part makes, in its own coordinates, in which propagators count."""
        return whole(self.shape)

    def written(self, box: Box) -> Box:
        """The hull of a box of the part in the coordinates of its output tensor."""
        return tuple(
            (start + low * step, start + (high - 1) * step + 1) if low < high else (start + low * step, start + low * step)
            for (low, high), start, step in zip(box, self.offset, self.step, strict=True)
        )

    def making(self, box: Box) -> Box:
        """The part's stripe that makes all of the part's elements in a box of the output tensor; empty if there are none."""
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
