"""Stored axes: each tensor as the array that most of its views step through, and the parts of a graph in these axes.

A tensor is bytes; the steps of its views show its axes. If the last axis of a view lies in blocks, the blocks are an axis of their own:
NHCWB16 is batch, height, brick, width, 16 channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.intervals import whole
from cascader.graph.propagator import InputAxis, Propagator, window
from cascader.graph.stripe_config import Rational
from cascader.graph.views import PartViews, View
from npu_model.shapes import ceil_div


class StoredView(Struct, frozen=True):
    """The position of a view among the stored axes of its tensor: element i of an axis is at ``offset + i * step``."""

    offset: tuple[int, ...]
    step: tuple[int, ...]


class StoredAxes(Struct, frozen=True):
    """The axes of a tensor: their elements, the bytes from one to the next, and how many of the last axis are a block (0: no blocks)."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    block: int

    @property
    def align(self) -> tuple[int, ...]:
        """Keep blocks whole."""
        return (*(1 for _ in self.shape[:-1]), self.block or 1)

    def piece(self, view: View) -> tuple[int, ...]:
        """The shape of a view in these axes, its last block whole."""
        *outer, inner, last = view.shape
        return (*outer, ceil_div(last, self.block), inner, self.block) if self.block else view.shape

    def stored(self, view: View) -> StoredView | None:
        """The position of the view; None if its elements are not a box (of every n-th element along an axis) of the tensor."""
        if view.block != self.block or view.steps[-1] != self.steps[-1] or not view.regular:
            return None
        offset, rest = [], view.base
        for step in self.steps:
            at, rest = divmod(rest, step)
            offset.append(at)
        steps = []
        for size, own, step in zip(self.piece(view), _steps(view), self.steps, strict=True):
            times, odd = divmod(own, step) if size > 1 else (1, 0)
            if odd or not times:
                return None
            steps.append(times)
        in_blocks = not self.block or (offset[-1] == 0 and steps[-3] == 1)
        ends = (at + (size - 1) * step for at, size, step in zip(offset, self.piece(view), steps, strict=True))
        inside = all(end < size for end, size in zip(ends, self.shape, strict=True))
        return StoredView(tuple(offset), tuple(steps)) if in_blocks and inside and not rest else None

    def reading(self, stored: StoredView) -> Propagator:
        """A map from boxes of a view to boxes of the tensor."""
        axes = len(self.shape) - bool(self.block)
        follows = (*range(axes - 2), None, axes - 2, None) if self.block else range(axes)
        read = [
            InputAxis(None, 0, self.block) if axis is None else window(axis, stride=step, pad=-start)
            for axis, start, step in zip(follows, stored.offset, stored.step, strict=True)
        ]
        if self.block:
            read[-3] = InputAxis(axes - 1, Fraction(1, self.block), 0, stored.offset[-3])
        return Propagator.of_axes(read, axes)

    def making(self) -> Propagator:
        """A map from boxes of a part's own array in these axes to boxes of its view: all elements of blocks, from the first block on."""
        axes = len(self.shape)
        if not self.block:
            return Propagator.identity(axes)
        rows = [[0] * (axes + 1) for _ in range(axes)]
        for row, axis in enumerate((*range(axes - 3), axes - 2)):
            rows[row][axis] = 1
        rows[-2][axes - 3], rows[-2][axes - 1], rows[-2][axes] = self.block, 1, -self.block
        rows[-1][axes] = 1
        return Propagator(tuple(map(tuple, rows)), (0,) * (axes - 1))


def _steps(view: View) -> tuple[int, ...]:
    """The steps of a view in the order of the stored axes. A single block may have any distance to the next one."""
    *outer, inner, last = view.steps
    return (*outer, min(view.block_step, outer[-1]), inner, last) if view.block else view.steps


def _dense(view: View, size: int) -> StoredAxes | None:
    """The axes of a tensor of ``size`` bytes if the view steps through every element of each axis."""
    steps = (size, *_steps(view)[1:])
    if min(steps) < 1 or any(outer % inner for outer, inner in pairwise(steps)):
        return None
    return StoredAxes((1, *(outer // inner for outer, inner in pairwise(steps))), steps, view.block)


def stored_axes(size: int, views: Sequence[View]) -> StoredAxes | None:
    """The axes of a tensor of ``size`` bytes among which most of its views lie, in a tie the first view's; None if none does."""
    best, most = None, 0
    for axes in dict.fromkeys(found for view in views if (found := _dense(view, size)) is not None):
        fitting = sum(axes.stored(view) is not None for view in views)
        if fitting > most:
            best, most = axes, fitting
    return best


class StoredTensors:
    """The tensors of a graph in their stored axes, and its parts as boxes of these."""

    def __init__(self, graph: CascaderGraph, views: Iterable[PartViews]) -> None:
        seen: dict[str, tuple[list[View], list[View]]] = {tensor.name: ([], []) for tensor in graph.tensors}
        for one in views:
            seen[one.output][0].append(one.view)
            for operand in one.operands:
                seen[operand.tensor][1].append(operand.view)
        # Writers come first: if several axes have equally many views, the writers' axis is taken.
        self._axes = {tensor.name: stored_axes(tensor.size, [*seen[tensor.name][0], *seen[tensor.name][1]]) for tensor in graph.tensors}
        self.tensors: Mapping[str, Tensor] = {
            tensor.name: self._tensor(tensor) for tensor in graph.tensors if tensor.kind is not TensorKind.CONSTANT
        }

    def axes(self, tensor: str) -> StoredAxes | None:
        """The axes of a tensor; None if it is bytes."""
        return self._axes[tensor]

    def _tensor(self, tensor: Tensor) -> Tensor:
        """The tensor in its axes, as bytes if it has none."""
        axes = self._axes[tensor.name]
        if axes is None:
            return Tensor.dense(tensor.name, tensor.kind, (tensor.size,))
        return Tensor.dense(tensor.name, tensor.kind, axes.shape, axes.steps[-1])

    def whole_part(self, part: Part, output: str, name: str, work: int = 0) -> Part:
        """A part that cannot be cut: any of its output needs all of its inputs. It does ``work`` in all."""
        shape = self.tensors[output].shape
        read = dict.fromkeys(operand for operand in part.inputs if operand in self.tensors)
        operands = tuple(Operand(operand, Propagator.opaque(self.tensors[operand].shape, len(shape))) for operand in read)
        made = Part.striped(name, operands, output, shape, work=_share(work, shape), align=shape)
        return replace(made, payload=part.payload)

    def part(self, part: Part, seen: PartViews, constants: Iterable[Operand], work: int) -> Part:
        """A part in the axes of its output, which does ``work`` in all; it cannot be cut if its array is not a box of these axes.

        Propagators of its ``constants`` begin at the axes of its view. A tensor in other axes than its operand is needed whole.
        """
        axes = self._axes[seen.output]
        stored = axes.stored(seen.view) if axes is not None else None
        if axes is None or stored is None:
            return self.whole_part(part, seen.output, part.name, work)
        own, shape = axes.making(), axes.piece(seen.view)
        cuts = zip(seen.view.shape, seen.cuts, strict=True)
        align = [size if cut is None or cut.phase else cut.align for size, cut in cuts]
        aligned = (*align[:-2], 1, align[-2], axes.block) if axes.block else tuple(align)
        operands = [self._operand(operand.tensor, operand.view, operand.propagator @ own) for operand in seen.operands]
        operands += [Operand(constant.tensor, constant.propagator @ own) for constant in constants]
        made = Part.striped(
            name=part.name,
            operands=tuple(operands),
            output=seen.output,
            shape=shape,
            offset=stored.offset,
            step=stored.step,
            work=_share(work, shape),
            align=aligned,
        )
        return replace(made, payload=part.payload)

    def _operand(self, tensor: str, view: View, needs: Propagator) -> Operand:
        """An operand in the tensor's axes; all of it if the view does not lie among them."""
        axes = self._axes[tensor]
        stored = axes.stored(view) if axes is not None else None
        if axes is None or stored is None:
            return Operand(tensor, Propagator.opaque(self.tensors[tensor].shape, needs.outputs))
        reading = axes.reading(stored)
        return Operand(tensor, reading @ needs, reading.reach(whole(view.shape)))


def _share(work: int, shape: Sequence[int]) -> Rational:
    """The work of each element, also spread over the elements that fill up the last block."""
    return Fraction(work, prod(shape))
