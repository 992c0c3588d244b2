"""Rows of views: their positions in a tensor, and the rows that some output rows need."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.graph.propagator import Propagator
from npu_model.errors import InputError
from npu_model.shapes import ceil_div

Rows = npt.NDArray[np.int64]


class RowMap(Struct, frozen=True):
    """Where the rows of a view lie in a tensor: row y in bytes [offset + y * step, offset + y * step + reach).

    A row of the tensor has ``unit`` bytes. So a reader may step through a tensor in finer or coarser rows than its writer (a reshape). It
    may begin inside the tensor (a crop, an operand of a concatenation). With ``step`` 0 every row of the view may lie anywhere in the
    ``reach``, as the rows of a transposition do.
    """

    offset: int
    step: int
    reach: int
    unit: int

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Rows of the tensor that rows ``first`` to ``last`` (exclusive) of the view touch; empty for an empty range.

        >>> RowMap(offset=0, step=1024, reach=1024, unit=512).span(1, 3)
        (2, 6)
        >>> RowMap(offset=512, step=512, reach=512, unit=1024).span(0, 2)
        (0, 2)
        """
        low = self.offset + first * self.step
        if last <= first:
            return low // self.unit, low // self.unit
        return low // self.unit, ceil_div(self.offset + (last - 1) * self.step + self.reach, self.unit)

    def until(self, end: int, rows: int) -> int:
        """Number of rows of the view, from the first of its ``rows`` on, that touch a row of the tensor before ``end``.

        >>> RowMap(offset=4096, step=512, reach=512, unit=512).until(10, 16)
        2
        """
        beyond = end * self.unit - self.offset
        if beyond <= 0:
            return 0
        return min(rows, ceil_div(beyond, self.step)) if self.step else rows

    def until_each(self, ends: Rows, rows: int) -> Rows:
        """Like :meth:`until`, for many ends at once.

        >>> RowMap(offset=4096, step=512, reach=512, unit=512).until_each(np.array([0, 10, 99]), 16).tolist()
        [0, 2, 16]
        """
        beyond = ends * self.unit - self.offset
        return np.where(beyond > 0, np.minimum(rows, -(-beyond // self.step)) if self.step else rows, 0)

    def lows(self, firsts: Rows) -> Rows:
        """The first row of the tensor that rows from ``firsts`` on touch, for many stripes at once."""
        return (self.offset + firsts * self.step) // self.unit

    def highs(self, lasts: Rows) -> Rows:
        """The end of the rows of the tensor that rows before ``lasts`` touch, for many stripes at once."""
        return -(-(self.offset + (lasts - 1) * self.step + self.reach) // self.unit)


class RowPropagator(Struct, frozen=True):
    """The row axis of an affine propagator (:meth:`projected`): which input rows some output rows need.

    Output rows [a, b) need rows [a * stride - pad, (b - 1) * stride - pad + taps) of the view that the part reads. These numbers are
    divided by ``upscale``, rounded outwards, and clipped to [0, rows). With ``whole`` any output row needs all rows. ``at`` says where the
    view's rows lie in the tensor; None: row y is row y.
    """

    rows: int
    stride: int = 1
    taps: int = 1
    pad: int = 0
    upscale: int = 1
    whole: bool = False
    at: RowMap | None = None

    @staticmethod
    @lru_cache(1 << 12)  # Forms of a network share most propagators.
    def projected(propagator: Propagator, output: int, axis: int, rows: int, at: RowMap | None = None) -> RowPropagator:
        """The part of an affine map that says which of ``rows`` elements of its input ``axis`` some rows of an ``output`` axis need.

        InputError if the input axis also depends on another output axis.

        >>> from cascader.graph.propagator import upscaled, window
        >>> conv = Propagator.of_axes((upscaled(window(0, taps=3, pad=1), 2),), 1)
        >>> RowPropagator.projected(conv, 0, 0, rows=8)
        RowPropagator(rows=8, stride=1, taps=3, pad=1, upscale=2, whole=False, at=None)
        """
        *coefficients, constant = propagator.matrix[axis]
        if any(coefficient for own, coefficient in enumerate(coefficients) if own != output):
            raise InputError(f"Input axis {axis} follows the output axes {propagator.follows(axis)}: rows follow axis {output} alone.")
        if not coefficients[output]:
            return RowPropagator(rows, whole=True, at=at)
        exact = Fraction(coefficients[output]), Fraction(constant), Fraction(propagator.offset[axis])
        upscale = lcm(*(value.denominator for value in exact))
        stride, more, offset = (int(value * upscale) for value in exact)
        return RowPropagator(rows, stride, stride + more, -offset, upscale, at=at)

    def demand(self, first: int, last: int) -> tuple[int, int]:
        """Rows of the tensor that output rows ``first`` to ``last`` (exclusive) need.

        >>> RowPropagator(rows=16, taps=3, pad=1).demand(4, 8)
        (3, 9)
        >>> RowPropagator(rows=16, stride=2, taps=3).demand(0, 2)
        (0, 5)
        >>> RowPropagator(rows=8, taps=3, pad=1, at=RowMap(offset=4, step=2, reach=2, unit=1)).demand(0, 2)
        (4, 10)
        """
        low, high = 0, self.rows
        if not self.whole:
            low = max(0, (first * self.stride - self.pad) // self.upscale)
            high = min(self.rows, ceil_div((last - 1) * self.stride - self.pad + self.taps, self.upscale))
        return (low, high) if self.at is None else self.at.span(low, high)

    def first_rows(self, firsts: Rows) -> Rows:
        """The first row of the tensor that output rows from ``firsts`` on need, for many stripes at once.

        >>> RowPropagator(rows=16, taps=3, pad=1).first_rows(np.array([0, 4])).tolist()
        [0, 3]
        """
        lows = np.zeros_like(firsts) if self.whole else np.maximum(0, (firsts * self.stride - self.pad) // self.upscale)
        return lows if self.at is None else self.at.lows(lows)

    def end_rows(self, counts: Rows) -> Rows:
        """The end of the rows of the tensor that the first output rows need, for many counts above 0.

        >>> RowPropagator(rows=16, taps=3, pad=1).end_rows(np.array([1, 4, 16])).tolist()
        [2, 5, 16]
        """
        needed = (counts - 1) * self.stride - self.pad + self.taps
        highs = np.full_like(counts, self.rows) if self.whole else np.minimum(self.rows, -(-needed // self.upscale))
        if self.at is None:
            return highs
        low = 0 if self.whole else max(0, -self.pad // self.upscale)
        return np.where(highs > low, self.at.highs(highs), (self.at.offset + low * self.at.step) // self.at.unit)
