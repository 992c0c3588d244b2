"""The body of a kernel in TensorIR: its operands, and the loops and stores with which kernels of every kind are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cascader.ethosu.network.axis import Axis as Cut
from cascader.tensorir.elements import Elements
from cascader.tensorir.kernel_window import axes, inside
from cascader.tensorir.numerics import finished
from cascader.tensorir.writer import Writer
from npu_model.program import KernelOperation
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Stripe:
    """Share of the OFM that a call of a kernel makes: ``count`` rows or columns from ``first`` on."""

    first: Any
    count: Any
    cut: Cut


def channel_blocks(operation: KernelOperation, block: int) -> list[tuple[int, int, int]]:
    """(first channel, blocks, channels of each): the whole blocks of output channels, and the one that holds the rest."""
    whole, rest = divmod(operation.ofm.shape.depth, block)
    return [(first, blocks, lanes) for first, blocks, lanes in ((0, whole, block), (whole * block, 1, rest)) if blocks and lanes]


@dataclass(frozen=True, slots=True)
class KernelBody:
    """Operands of a kernel, and its statements as they are written.

    ``ifm2`` is None for a scalar and for an operation of one operand, ``lut`` without a look-up table. ``scratch`` are the accumulators,
    None for an elementwise kernel, and ``accumulator`` is their type. ``macs`` counts multiply-accumulates, None if nobody asks for them.
    ``what`` is the kernel's name in a sentence.
    """

    writer: Writer
    operation: KernelOperation
    ifm: Elements
    ifm2: Elements | None
    ofm: Elements
    lut: Any
    scratch: Any
    accumulator: str
    macs: Any
    stripe: Stripe
    what: str

    def groups(self, block: int) -> Iterator[tuple[Any, Any, Any, int]]:
        """(row, column, first channel, channels) of every position of the stripe, ``block`` channels at a time, and then the rest.

        The loops are open while a group is used.
        """
        shape, stripe = self.operation.ofm.shape, self.stripe
        rows, columns, own = (0, shape.height), (0, shape.width), (stripe.first, stripe.count)
        rows, columns = (own, columns) if stripe.cut is Cut.ROWS else (rows, own)
        with self.writer.loop("y", rows[1], rows[0]) as y, self.writer.loop("x", columns[1], columns[0]) as x:
            for first, blocks, lanes in channel_blocks(self.operation, block):
                with self.writer.loop("block", blocks) as number:
                    yield y, x, first + number * lanes, lanes

    @contextmanager
    def taps(self, y: Any, x: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Loops over the taps inside the IFM for one OFM position; gives tap row and column, then the IFM's row and column."""
        row, column = axes(self.operation)
        with inside(self.writer, "ky", row, y) as (ky, iy), inside(self.writer, "kx", column, x) as (kx, ix):
            yield ky, kx, iy, ix

    def clear(self, lanes: int, value: int) -> None:
        """Begin ``lanes`` accumulators with ``value``."""
        with self.writer.loop("c", lanes) as c:
            self.writer.store(self.scratch, c, self.writer.constant(value, self.accumulator))

    def count(self, number: int) -> None:
        """Add to the counter of multiply-accumulates, if there is one."""
        if self.macs is not None:
            self.writer.store(self.macs, 0, self.macs[0] + self.writer.constant(number))

    def store(self, y: Any, x: Any, channel: Any, value: Any) -> None:
        """Store a result, with zero point, clamp and look-up table, as an element of the OFM."""
        index = self.ofm.index(self.writer, y, x, channel)
        self.writer.store(self.ofm.buffer, index, finished(self.writer, self.operation, value, self.lut, self.what))
