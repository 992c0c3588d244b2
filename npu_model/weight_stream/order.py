"""The order in which the NPU reads weights: from an OHWI array to the decoder's sequence of symbols and back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import KernelOperation, OperationKind
from npu_model.shapes import ceil_div, round_up

Int16 = npt.NDArray[np.int16]

SUBKERNEL = 8
"""Largest side of a sub-kernel, in taps of the dilated window (Vela 5.2.0 ``SubKernelMax``)."""


STREAM_BITS = (8, 16)
"""Bits of the elements that weights are multiplied with (IFM_PRECISION has 32 only for elementwise operations)."""


class WeightFormat(Struct, frozen=True):
    """All facts that decide a weight stream, except for the weights and the accelerator.

    ``block_depth`` is the depth of the OFM block. ``part_kernel`` chooses the kernel-first order, which depthwise operations do not have.
    ``ifm_bits`` is 8 or 16. The dilations (1 or 2) and ``decompose`` (4 x 4 sub-kernels on both axes) decide how a large window is cut.
    """

    block_depth: int
    depthwise: bool = False
    part_kernel: bool = False
    ifm_bits: int = 8
    dilation_y: int = 1
    dilation_x: int = 1
    decompose: bool = False

    @classmethod
    def of(cls, op: KernelOperation) -> WeightFormat:
        """The format that a convolution's registers describe."""
        return cls(
            block_depth=op.block.depth,
            depthwise=op.kind is OperationKind.DEPTHWISE,
            part_kernel=op.part_kernel,
            ifm_bits=op.ifm.dtype.bits,
            dilation_y=op.kernel.dilation_y,
            dilation_x=op.kernel.dilation_x,
            decompose=op.decompose,
        )

    @property
    def subkernel(self) -> tuple[int, int]:
        """Rows and columns of the largest sub-kernel, in taps."""
        if self.decompose:
            return SUBKERNEL // 2, SUBKERNEL // 2
        return SUBKERNEL // self.dilation_y, SUBKERNEL // self.dilation_x

    @property
    def element_multiple(self) -> int:
        """Taps of a sub-kernel are padded with zeros to a multiple of this number."""
        if self.depthwise:
            return 4
        if self.part_kernel:
            return 2 if self.ifm_bits == 16 else 4
        return 1

    @property
    def ifm_block_depth(self) -> int:
        """Channels of one IFM block: 32, or 16 in part-kernel order and for 16-bit IFMs."""
        return 16 if self.part_kernel or self.ifm_bits == 16 else 32


class _Run(Struct, frozen=True):
    """One run of symbols: an OFM depth block, an IFM depth block, a sub-kernel (rows, columns, channels as start and count).

    The symbols are in the order of the six ``axes``: outer IFM ublocks, OFM ublocks, taps, inner IFM ublocks, OFM channels in the ublock,
    IFM channels in the ublock. ``ofm`` and ``ifm`` count all channels of the ublocks, even beyond the end of the tensor or, with several
    cores, of the block. ``kept`` counts the OFM channels of the block itself.
    """

    kept: int
    ofm: tuple[int, int]
    ifm: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]
    axes: tuple[int, int, int, int, int, int]

    @property
    def symbols(self) -> int:
        count = 1
        for axis in self.axes:
            count *= axis
        return count

    @property
    def box(self) -> tuple[slice, slice, slice, slice]:
        """The run's position in the padded OHWI array."""
        (o, oc), (y, yc), (x, xc), (i, ic) = self.ofm, self.rows, self.columns, self.ifm
        return slice(o, o + oc), slice(y, y + yc), slice(x, x + xc), slice(i, i + ic)


def _spans(extent: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(step, extent - start)) for start in range(0, extent, step)]


def ifm_steps(layout: WeightFormat, accelerator: Accelerator) -> tuple[int, int]:
    """IFM channels of an ublock and of an IFM block: one each for depthwise operations."""
    return (1, 1) if layout.depthwise else (accelerator.ifm_ublock.depth, layout.ifm_block_depth)


def _runs(shape: tuple[int, ...], layout: WeightFormat, accelerator: Accelerator) -> Iterator[_Run]:
    """The runs of a stream, in stream order (ethos-u55 traversal: OFM block, IFM block, sub-kernel y, x)."""
    depth, height, width, channels = shape
    ofm_step = accelerator.ofm_ublock.depth
    ifm_step, block_depth = ifm_steps(layout, accelerator)
    sub_height, sub_width = layout.subkernel
    for o, o_count in _spans(depth, layout.block_depth):
        ofm_ublocks = ceil_div(o_count, ofm_step)
        for i, i_count in _spans(channels, block_depth):
            # Depth-first order always takes the whole IFM block, with zeros beyond the tensor; part-kernel order stops at a ublock.
            ifm_ublocks = ceil_div(i_count if layout.part_kernel else block_depth, ifm_step)
            outer, inner = (ifm_ublocks, 1) if layout.part_kernel else (1, ifm_ublocks)
            for rows in _spans(height, sub_height):
                for columns in _spans(width, sub_width):
                    taps = round_up(rows[1] * columns[1], layout.element_multiple)
                    axes = (outer, ofm_ublocks, taps, inner, ofm_step, ifm_step)
                    yield _Run(o_count, (o, ofm_ublocks * ofm_step), (i, ifm_ublocks * ifm_step), rows, columns, axes)


def _padded_shape(shape: tuple[int, ...], layout: WeightFormat, accelerator: Accelerator) -> tuple[int, int, int, int]:
    channels = shape[3] if layout.depthwise else round_up(shape[3], layout.ifm_block_depth)
    last = (shape[0] - 1) // layout.block_depth * layout.block_depth
    return last + round_up(shape[0] - last, accelerator.ofm_ublock.depth), shape[1], shape[2], channels


def check_format(shape: tuple[int, ...], layout: WeightFormat, accelerator: Accelerator) -> None:
    """InputError unless weights of ``shape`` (OHWI) can be ordered by ``layout``."""
    step = accelerator.ofm_ublock.depth
    if len(shape) != 4 or min(shape) < 1:
        raise InputError(f"Weights have shape {shape}: four axes of at least 1 are needed; give OFM channels, height, width, IFM channels.")
    if layout.depthwise and (shape[3] != 1 or layout.part_kernel):
        order = "part-kernel" if layout.part_kernel else "depth-first"
        raise InputError(
            f"Depthwise weights have {shape[3]} IFM channels in {order} order: 1 in depth-first order is needed; one filter per channel."
        )
    # With several cores each has its part of a block, which may end inside an ublock.
    if layout.block_depth < 1 or (accelerator.cores == 1 and layout.block_depth % step):
        raise InputError(
            f"OFM block depth {layout.block_depth} is not a positive multiple of {step}: choose a block of {accelerator.name}."
        )
    if layout.ifm_bits not in STREAM_BITS or not {layout.dilation_y, layout.dilation_x} <= {1, 2}:
        raise InputError(
            f"Weights for a {layout.ifm_bits}-bit IFM dilated {layout.dilation_y} x {layout.dilation_x}: "
            "8 or 16 bits and dilations of 1 or 2 are needed; legalise the operator first."
        )


def hardware_order(weights: Int16, layout: WeightFormat, accelerator: Accelerator) -> Int16:
    """Weights (OHWI) as the flat sequence of symbols that the NPU reads, padding zeros included."""
    check_format(weights.shape, layout, accelerator)
    padded = np.zeros(_padded_shape(weights.shape, layout, accelerator), np.int16)
    padded[: weights.shape[0], :, :, : weights.shape[3]] = weights
    parts = []
    for run in _runs(weights.shape, layout, accelerator):
        outer, ofm_ublocks, _, inner, ofm_step, ifm_step = run.axes
        elements = run.rows[1] * run.columns[1]
        symbols = np.zeros(run.axes, np.int16)
        covered = padded[run.box]
        if run.kept < len(covered):
            covered = covered.copy()
            covered[run.kept :] = 0
        source = covered.reshape(ofm_ublocks, ofm_step, elements, outer, inner, ifm_step)
        symbols[:, :, :elements] = source.transpose(3, 0, 2, 4, 1, 5)
        parts.append(symbols.reshape(-1))
    return np.concatenate(parts)


def from_hardware_order(symbols: Int16, shape: tuple[int, int, int, int], layout: WeightFormat, accelerator: Accelerator) -> Int16:
    """Inverse of :func:`hardware_order`: the OHWI array of ``shape``.

    InputError if the number of symbols does not match the shape and the format.
    """
    check_format(shape, layout, accelerator)
    expected = symbol_count(shape, layout, accelerator)
    if symbols.size != expected:
        raise InputError(
            f"The weight stream holds {symbols.size} weights: {expected} are needed for weights of shape {shape}; the file is damaged."
        )
    padded = np.zeros(_padded_shape(shape, layout, accelerator), np.int16)
    start = 0
    for run in _runs(shape, layout, accelerator):
        outer, ofm_ublocks, _, inner, ofm_step, ifm_step = run.axes
        elements = run.rows[1] * run.columns[1]
        block = symbols[start : start + run.symbols].reshape(run.axes)[:, :, :elements]
        target = block.transpose(1, 4, 2, 0, 3, 5)
        padded[run.box] = target.reshape(ofm_ublocks * ofm_step, run.rows[1], run.columns[1], outer * inner * ifm_step)
        start += run.symbols
    return np.ascontiguousarray(padded[: shape[0], :, :, : shape[3]])


def symbol_count(shape: tuple[int, int, int, int], layout: WeightFormat, accelerator: Accelerator) -> int:
    """Number of symbols in a stream for weights of ``shape`` (OHWI), all of which the weight decoder produces."""
    return sum(run.symbols for run in _runs(shape, layout, accelerator))


@lru_cache(maxsize=4096)
def run_ends(shape: tuple[int, int, int, int], layout: WeightFormat, accelerator: Accelerator) -> tuple[int, ...]:
    """Number of symbols up to the end of each run, in stream order. A run is one sub-kernel of one IFM block for one OFM block."""
    return tuple(accumulate(run.symbols for run in _runs(shape, layout, accelerator)))
