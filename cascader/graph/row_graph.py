"""RowGraph: the facts of a CascaderGraph that striping by rows needs, and nothing of any device.

A tensor is a stack of rows of equal size. A part makes rows of its outputs from rows of its inputs, each of which it may see as a view
with rows of its own.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.propagator import Propagator
from npu_model.errors import InputError
from npu_model.shapes import ceil_div

Rows = npt.NDArray[np.int64]


class RowMap(Struct, frozen=True):
    """Where the rows of a view lie in a tensor: row y in bytes [offset + y * step, offset + y * step + reach).

    A row of the tensor has ``unit`` bytes. So a reader may step through a tensor in finer or coarser rows than its writer (a reshape). It
    may begin inside the tensor (a crop, a piece of a concatenation). With ``step`` 0 every row of the view may lie anywhere in the
    ``reach``, as those of a transposition do.
    """

    offset: int
    step: int
    reach: int
    unit: int

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Rows of the tensor that rows ``first`` to ``last`` (exclusive) of the view touch; none if there are none of these.

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

    def lows(self, firsts: Rows) -> Rows:
        """The first row of the tensor that rows from ``firsts`` on touch, for many stripes at once."""
        return (self.offset + firsts * self.step) // self.unit

    def highs(self, lasts: Rows) -> Rows:
        """The end of the rows of the tensor that rows before ``lasts`` touch, for many stripes at once."""
        return -(-(self.offset + (lasts - 1) * self.step + self.reach) // self.unit)


class RowPropagator(Struct, frozen=True):
    """The row axis of an affine propagator (:meth:`projected`): which input rows some output rows need.

    Output rows [a, b) need rows [a * stride - pad, (b - 1) * stride - pad + taps) of the view that the part reads. These numbers are
    divided by ``upscale``, rounded outwards, and clipped to [0, rows). With ``whole`` any output row needs all of them. ``at`` says where
    the view's rows lie in the tensor; None: row y is row y.
    """

    rows: int
    stride: int = 1
    taps: int = 1
    pad: int = 0
    upscale: int = 1
    whole: bool = False
    at: RowMap | None = None

    @staticmethod
    def projected(propagator: Propagator, output: int, axis: int, rows: int, at: RowMap | None = None) -> RowPropagator:
        """The part of an affine map that says which of ``rows`` elements of its input ``axis`` some rows of an ``output`` axis need.

        InputError if another output axis has a say, too.

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
        """Rows of the tensor behind output rows ``first`` to ``last`` (exclusive).

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
        """The first row of the tensor behind output rows from ``firsts`` on, for many stripes at once.

        >>> RowPropagator(rows=16, taps=3, pad=1).first_rows(np.array([0, 4])).tolist()
        [0, 3]
        """
        lows = np.zeros_like(firsts) if self.whole else np.maximum(0, (firsts * self.stride - self.pad) // self.upscale)
        return lows if self.at is None else self.at.lows(lows)


class RowTensor(Struct, frozen=True):
    """``rows`` rows of ``row_bytes`` bytes of the arena, 0 of a tensor that lives elsewhere; a tensor that cannot be cut is one row.

    A rolling buffer of it holds a multiple of ``roll`` rows, so that no row of a view of it wraps in the middle.
    """

    name: str
    kind: TensorKind
    rows: int
    row_bytes: int
    roll: int = 1

    @property
    def size(self) -> int:
        """Bytes of the arena that all rows take."""
        return self.rows * self.row_bytes


class RowPart(Struct, frozen=True):
    """A part that makes ``rows`` rows of its ``outputs`` from ``inputs`` (tensor index and propagator each).

    ``maps`` say where its rows lie in each output (None, or no maps: row y is row y). Stripes begin at row 0 or at ``phase`` and a multiple
    of ``align`` rows and have at most ``most_rows`` (0: any number); an ``atomic`` part is run whole, and without a map writes all of its
    outputs. ``in_place`` is the input tensor that the output may be stored over, row by row: one with as many rows, of as many bytes, of
    which no other part reads a row any more when this one may make it.

    The earlier parts ``after`` must be complete before this one begins, as it overwrites what they read or write. Parts
    of different ``segment`` are never interleaved.
    """

    name: str
    inputs: tuple[tuple[int, RowPropagator], ...]
    outputs: tuple[int, ...]
    rows: int
    align: int = 1
    atomic: bool = False
    in_place: int | None = None
    after: tuple[int, ...] = ()
    segment: int = 0
    phase: int = 0
    most_rows: int = 0
    maps: tuple[RowMap | None, ...] = ()

    def chunk(self, rows: int) -> int:
        """Rows of a stripe that is asked for ``rows``.

        >>> [RowPart("part", (), (0,), rows=16, align=2, most_rows=most).chunk(5) for most in (0, 2)]
        [6, 2]
        """
        if self.atomic:
            return self.rows
        return min(self.rows, ceil_div(min(rows, self.most_rows or rows), self.align) * self.align)

    def border_from(self, row: int) -> int:
        """The first row from ``row`` on at which a stripe may begin; it may lie behind the last row.

        >>> [RowPart("part", (), (0,), rows=16, align=2, phase=1).border_from(row) for row in (0, 1, 2, 3, 4)]
        [0, 1, 3, 3, 5]
        """
        return self.phase + ceil_div(row - self.phase, self.align) * self.align if row > 0 else 0

    def border_until(self, row: int) -> int:
        """The last row up to ``row`` at which a stripe may begin.

        >>> [RowPart("part", (), (0,), rows=16, align=2, phase=1).border_until(row) for row in (0, 1, 2, 3, 4)]
        [0, 1, 1, 3, 3]
        """
        return self.phase + (row - self.phase) // self.align * self.align if row >= self.phase else 0

    def typical(self, height: int) -> int:
        """Where a stripe of ``height`` rows begins that stands for all of them: in the middle, if such a stripe may.

        >>> RowPart("part", (), (0,), rows=16).typical(4), RowPart("part", (), (0,), rows=15, align=2).typical(5)
        (6, 10)
        """
        return self.border_until(self.rows - height if height % self.align else (self.rows - height) // 2)

    def map(self, output: int) -> RowMap | None:
        """Where the part's rows lie in an output (its number among them); None: row y is row y, or all of an atomic part."""
        return self.maps[output] if self.maps else None

    def written(self, output: int, start: int, end: int, rows: int) -> tuple[int, int]:
        """Rows of an output, a tensor of ``rows`` rows, in which the part's rows from ``start`` until ``end`` lie.

        ``output`` is the output's number among the part's outputs.
        """
        at = self.map(output)
        if at is not None:
            return at.span(start, end)
        return (0, rows) if self.atomic else (start, end)

    def rows_until(self, output: int, end: int) -> int:
        """Number of rows, from its first on, that the part must make until the rows of an output before ``end`` are there.

        ``output`` is the output's number among the part's outputs.
        """
        at = self.map(output)
        if at is not None:
            return at.until(end, self.rows)
        return max(0, min(self.rows, 1 if self.atomic and end > 0 else end))


class RowGraph(Struct, frozen=True):
    """Parts in order of execution and their tensors."""

    parts: tuple[RowPart, ...]
    tensors: tuple[RowTensor, ...]

    def writers(self) -> list[list[tuple[int, int]]]:
        """The parts that write each tensor, with its number among their outputs."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.tensors]
        for index, part in enumerate(self.parts):
            for output, tensor in enumerate(part.outputs):
                found[tensor].append((index, output))
        return found

    def readers(self) -> list[list[tuple[int, RowPropagator]]]:
        """The parts that read each tensor, with their propagators."""
        found: list[list[tuple[int, RowPropagator]]] = [[] for _ in self.tensors]
        for index, part in enumerate(self.parts):
            for tensor, propagator in part.inputs:
                found[tensor].append((index, propagator))
        return found

    def is_asked_last(self, part: int, tensor: int) -> bool:
        """Whether a reader of the tensor asks other parts for its rows before this one, which does not ask these itself."""
        return not self.parts[part].most_rows or all(read != tensor for read, _ in self.parts[part].inputs)
