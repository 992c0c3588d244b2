"""RowGraph: the facts of a CascaderGraph that striping by rows needs, and nothing of any device.

A tensor is a stack of rows of equal size. A part makes rows of its outputs from rows of its inputs, each of which it may see as a view
with rows of its own.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_maps import RowMap, RowPropagator, Rows
from npu_model.shapes import ceil_div


class RowTensor(Struct, frozen=True):
    """``rows`` rows of ``row_bytes`` bytes of the arena, 0 for a tensor that lives elsewhere. A tensor that cannot be cut is one row.

    Its rolling buffer holds a multiple of ``roll`` rows, so that no row of a view wraps in the middle.
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
    outputs. ``in_place`` is the input tensor that the output may overwrite, row by row. It has the same number of rows with the same number
    of bytes. No other part still reads a row when this part may make it.

    The earlier parts ``after`` must be complete before this one begins, because it overwrites bytes that they read or write. Parts of
    different ``segment`` are never interleaved.
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
        """Rows of a stripe for a request of ``rows``.

        >>> [RowPart("part", (), (0,), rows=16, align=2, most_rows=most).chunk(5) for most in (0, 2)]
        [6, 2]
        """
        if self.atomic:
            return self.rows
        return min(self.rows, ceil_div(min(rows, self.most_rows or rows), self.align) * self.align)

    def border_from(self, row: int) -> int:
        """The first row from ``row`` on at which a stripe may begin; it may lie after the last row.

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
        """The first row of a stripe of ``height`` rows that represents all such stripes: in the middle, if that is allowed.

        >>> RowPart("part", (), (0,), rows=16).typical(4), RowPart("part", (), (0,), rows=15, align=2).typical(5)
        (6, 10)
        """
        return self.border_until(self.rows - height if height % self.align else (self.rows - height) // 2)

    def map(self, output: int) -> RowMap | None:
        """The positions of the part's rows in an output (by number); None: row y is row y, or all of an atomic part."""
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
        """Number of rows, from its first on, that the part must make until the rows of an output before ``end`` exist.

        ``output`` is the output's number among the part's outputs.
        """
        at = self.map(output)
        if at is not None:
            return at.until(end, self.rows)
        return max(0, min(self.rows, 1 if self.atomic and end > 0 else end))

    def rows_until_each(self, output: int, ends: Rows) -> Rows:
        """Like :meth:`rows_until`, for many ends at once.

        >>> RowPart("part", (), (0,), rows=16).rows_until_each(0, np.array([-1, 4, 20])).tolist()
        [0, 4, 16]
        """
        at = self.map(output)
        if at is not None:
            return at.until_each(ends, self.rows)
        sure = np.where(ends > 0, 1, 0) if self.atomic else np.maximum(ends, 0)
        return np.minimum(sure, self.rows)

    def written_until(self, output: int, counts: Rows, rows: int) -> Rows:
        """The end of the rows of an output, a tensor of ``rows`` rows, in which the part's first rows lie, for many counts above 0."""
        at = self.map(output)
        if at is not None:
            return at.highs(counts)
        return np.full_like(counts, rows) if self.atomic else counts


Writers = list[list[tuple[int, int]]]
"""By tensor the parts that write it, with its number among their outputs."""


class RowGraph(Struct, frozen=True):
    """Parts in order of execution and their tensors."""

    parts: tuple[RowPart, ...]
    tensors: tuple[RowTensor, ...]

    def writers(self) -> Writers:
        """The parts that write each tensor, with its number among their outputs."""
        found: Writers = [[] for _ in self.tensors]
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
        """Whether a reader of the tensor asks other parts for its rows before this one, which does not ask them itself."""
        return not self.parts[part].most_rows or all(read != tensor for read, _ in self.parts[part].inputs)
