"""RowGraph: what striping by rows needs to know of a CascaderGraph, and nothing of any device.

A tensor is a stack of rows of equal size; a part makes rows of its output from rows of its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cascader.graph import TensorKind
from npu_model.shapes import ceil_div

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowPropagator:
    """The row axis of an affine propagator: which input rows some output rows need.

    Output rows [a, b) need input rows [a * stride - pad, (b - 1) * stride - pad + taps), divided by ``upscale``
    (rounded outwards) and clipped to [0, rows). With ``whole`` any output row needs all input rows.
    """

    rows: int
    stride: int = 1
    taps: int = 1
    pad: int = 0
    upscale: int = 1
    whole: bool = False

    def demand(self, first: int, last: int) -> tuple[int, int]:
        """Input rows behind output rows ``first`` to ``last`` (exclusive).

        >>> RowPropagator(rows=16, taps=3, pad=1).demand(4, 8)
        (3, 9)
        >>> RowPropagator(rows=16, stride=2, taps=3).demand(0, 2)
        (0, 5)
        """
        if self.whole:
            return 0, self.rows
        low, high = first * self.stride - self.pad, (last - 1) * self.stride - self.pad + self.taps
        return max(0, low // self.upscale), min(self.rows, ceil_div(high, self.upscale))

    def first_rows(self, firsts: Rows) -> Rows:
        """The first input row behind output rows from ``firsts`` on, for many stripes at once.

        >>> RowPropagator(rows=16, taps=3, pad=1).first_rows(np.array([0, 4])).tolist()
        [0, 3]
        """
        if self.whole:
            return np.zeros_like(firsts)
        return np.maximum(0, (firsts * self.stride - self.pad) // self.upscale)


@dataclass(frozen=True, slots=True)
class RowTensor:
    """``rows`` rows of ``row_bytes`` bytes; a tensor that cannot be cut is one row."""

    name: str
    kind: TensorKind
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class RowPart:
    """A part that writes ``rows`` rows of tensor ``output`` from ``inputs`` (tensor index and propagator each).

    Stripes begin at multiples of ``align`` rows; an ``atomic`` part is run whole. ``in_place`` is the input tensor that
    the output may be stored over, row by row: one with as many rows, of as many bytes, of which no other part reads a row any more
    when this one may make it.
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

    def typical(self, height: int) -> int:
        """Where a stripe of ``height`` rows begins that stands for all of them: in the middle, if such a stripe may.

        >>> RowPart("part", (), (0,), rows=16).typical(4), RowPart("part", (), (0,), rows=15, align=2).typical(5)
        (6, 10)
        """
        middle = self.rows - height if height % self.align else (self.rows - height) // 2
        return middle // self.align * self.align


@dataclass(frozen=True, slots=True)
class RowGraph:
    """Parts in order of execution and their tensors."""

    parts: tuple[RowPart, ...]
    tensors: tuple[RowTensor, ...]

    def producers(self, tensor: int) -> tuple[int, ...]:
        """Parts that write the tensor."""
        return tuple(i for i, part in enumerate(self.parts) if tensor in part.outputs)

    def consumers(self, tensor: int) -> tuple[tuple[int, RowPropagator], ...]:
        """Parts that read the tensor, with their propagators."""
        return tuple((i, p) for i, part in enumerate(self.parts) for t, p in part.inputs if t == tensor)
