"""StripeConfig: how a tensor is cut into stripes, one box after the other, in the nouns of TVM RFC 0037."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import floor, prod
from numbers import Rational as Exact
from typing import TYPE_CHECKING

from msgspec import Struct

from cascader.graph.intervals import Box, Interval
from npu_model.errors import InputError
from npu_model.shapes import ceil_div

if TYPE_CHECKING:
    Rational = int | Fraction
else:
    Rational = Exact  # Both are integers here: files are read by one type, and a union with Fraction would have no meaning.
"""An exact number: an int if it is whole."""


class StripeConfig(Struct, frozen=True):
    """Stripes of ``shape`` elements, clipped to [0, extent) on every axis.

    The i-th stripe of an axis begins at the floor of ``offset + i * strides`` (a convolution after an upscaling by two has half a stride).
    ``order`` says which axis is the outermost loop (1), which the next one; an axis of order 0 is not iterated and has one stripe. Axes of
    the same order are stepped through by one loop (an operator that reads a diagonal does so).

    >>> halves = StripeConfig.even((4, 6), shape=(2, 6))
    >>> halves.stripes, list(halves.boxes())
    ((2, 1), [((0, 2), (0, 6)), ((2, 4), (0, 6))])
    """

    shape: tuple[int, ...]
    extent: tuple[int, ...]
    strides: tuple[Rational, ...]
    order: tuple[int, ...]
    stripes: tuple[int, ...]
    offset: tuple[Rational, ...]

    def __post_init__(self) -> None:
        rank = len(self.shape)
        for name in ("extent", "strides", "order", "stripes", "offset"):
            if len(getattr(self, name)) != rank:
                raise InputError(f"A StripeConfig of {rank} axes has {name} {getattr(self, name)}: give one number per axis.")
        if min(self.shape, default=1) < 1 or min(self.stripes, default=1) < 1:
            raise InputError(f"A StripeConfig has shape {self.shape} and stripes {self.stripes}: each number must be 1 or more.")
        if min(self.order, default=0) < 0:
            raise InputError(f"A StripeConfig has order {self.order}: number the loops from 1, 0 is not a loop.")
        if any(len({self.stripes[axis] for axis in axes}) > 1 for place, axes in self._loops() if place):
            raise InputError(f"A StripeConfig has order {self.order} for stripes {self.stripes}: axes of one loop have equally many.")
        if any(count > 1 and not place for count, place in zip(self.stripes, self.order, strict=True)):
            raise InputError(f"A StripeConfig has order {self.order} for stripes {self.stripes}: an axis of order 0 has one stripe.")

    @classmethod
    def even(cls, extent: Sequence[int], shape: Sequence[int], order: Sequence[int] | None = None) -> StripeConfig:
        """Adjacent stripes that cover ``extent``; by default the first axis is the outermost loop."""
        if min(shape, default=1) < 1:
            raise InputError(f"Stripes have shape {tuple(shape)}: each number must be 1 or more.")
        counts = tuple(ceil_div(size, step) for size, step in zip(extent, shape, strict=True))
        places = tuple(order) if order is not None else tuple(range(1, len(counts) + 1))
        return cls(tuple(shape), tuple(extent), tuple(shape), places, counts, (0,) * len(counts))

    def _loops(self) -> list[tuple[int, tuple[int, ...]]]:
        """The loops from the outermost to the innermost, each as its order and its axes; axes without a loop come last."""
        nest = sorted({place for place in self.order if place})
        loops = [(place, tuple(axis for axis, own in enumerate(self.order) if own == place)) for place in nest]
        return [*loops, *((0, (axis,)) for axis, place in enumerate(self.order) if not place)]

    @property
    def count(self) -> int:
        """Number of stripes, including empty ones."""
        return prod(self.stripes[axes[0]] for _, axes in self._loops())

    def interval(self, axis: int, index: int) -> Interval:
        """Elements of an axis in its stripe number ``index``, clipped; empty if the stripe lies outside the extent."""
        start = floor(self.offset[axis] + index * self.strides[axis])
        low = min(max(start, 0), self.extent[axis])
        return low, max(low, min(start + self.shape[axis], self.extent[axis]))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """The stripes' numbers along each axis in the order of execution."""
        loops = [axes for _, axes in self._loops()]
        for numbers in product(*(range(self.stripes[axes[0]]) for axes in loops)):
            at = {axis: number for axes, number in zip(loops, numbers, strict=True) for axis in axes}
            yield tuple(at[axis] for axis in range(len(self.shape)))

    def boxes(self) -> Iterator[Box]:
        """The clipped stripes in the order of execution, including empty ones, so that they pair with those of other tensors."""
        for numbers in self.indices():
            yield tuple(self.interval(axis, number) for axis, number in enumerate(numbers))
