"""Views: the arrays that parts see in the bytes of their tensors, with a Propagator for each.

Parts need not agree about the axes of a tensor: one may read a matrix that another has written as an image. They share only the bytes.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from cascader.graph.propagator import Propagator
from cascader.graph.row_maps import RowMap
from npu_model.shapes import ceil_div


class View(Struct, frozen=True):
    """An array of some axes in the bytes of a tensor.

    Its first element begins at byte ``base``, and ``steps`` are the bytes from one element to the next along each axis. Elements of the
    last axis are contiguous, in blocks of ``block`` (0: all in one) that are ``block_step`` bytes apart. ``extent`` is the first byte of
    the array and the end of its last one. If an array is not ``regular``, only this extent is known.
    """

    shape: tuple[int, ...]
    base: int
    steps: tuple[int, ...]
    extent: tuple[int, int]
    block: int = 0
    block_step: int = 0
    regular: bool = True

    @lru_cache(1 << 12)  # noqa: B019  # a view is a value; forms of a network share most views
    def reach(self, axis: int) -> int:
        """Bytes of the span of an element along an axis, from its first byte to its last."""
        *others, depth = self.shape
        inside = min(depth, self.block) if self.block else depth
        blocks = ceil_div(depth, inside)
        last = sum((size - 1) * step for other, (size, step) in enumerate(zip(others, self.steps, strict=False)) if other != axis)
        return last + (blocks - 1) * self.block_step + inside * self.steps[-1]

    def step(self, axis: int) -> int | None:
        """Bytes from one element along an axis to the next; None for a single element, and for elements whose bytes interleave.

        >>> image = View((4, 8, 3), base=0, steps=(24, 3, 1), extent=(0, 96))
        >>> image.step(0), image.step(1)
        (24, None)
        """
        apart = self.shape[axis] > 1 and self.regular and self.reach(axis) <= self.steps[axis]
        return self.steps[axis] if apart else None

    def rows(self, axis: int, unit: int) -> RowMap | None:
        """The positions of the elements along an axis in a tensor of rows of ``unit`` bytes; None if each is the tensor's own row."""
        step = self.step(axis)
        if step is None:
            return self.whole(unit)
        reach = self.reach(axis)
        return None if step == unit and self.base + reach <= unit else RowMap(self.base, step, reach, unit)

    def whole(self, unit: int) -> RowMap:
        """All rows of ``unit`` bytes in which the array lies, for each of its elements."""
        first, end = self.extent
        return RowMap(first, 0, end - first, unit)


class OperandView(Struct, frozen=True):
    """The view that a part has of a tensor that it reads; ``propagator`` leads from the part's own array to the view."""

    tensor: str
    view: View
    propagator: Propagator


class Cut(Struct, frozen=True):
    """Stripes along an axis.

    A stripe begins at 0, or at ``phase`` and a multiple of ``align``, and has at most ``most`` elements (0: any number).
    """

    align: int = 1
    phase: int = 0
    most: int = 0


class PartViews(Struct, frozen=True):
    """A part's own array (a ``view`` of its only ``output``), the ``operands`` that it reads, how each axis is cut (None: not at all)."""

    output: str
    view: View
    operands: tuple[OperandView, ...]
    cuts: tuple[Cut | None, ...]

    @property
    def everything(self) -> tuple[tuple[str, View], ...]:
        """The tensors that the part reads and writes, each with its view."""
        return *((operand.tensor, operand.view) for operand in self.operands), (self.output, self.view)
