"""The shared buffer (SHRAM): the IFM block that an OFM block needs, and the positions of its buffers if they fit."""

from __future__ import annotations

from array import array

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.native import native
from npu_model.program import (
    AccumulatorFormat,
    ActivationKind,
    ElementwiseKind,
    Kernel,
    KernelOperation,
    OperationKind,
    PoolKind,
    Shram,
    Upscale,
)
from npu_model.shapes import Shape3D, ceil_div, round_up

_NATIVE = native("npu_model")
"""The compiled partitions for many blocks; None if they are not built."""

BANK_BYTES = 1024
"""Bytes of one SHRAM bank (Vela 5.2.0 ``shram_bank_size``)."""
MAX_SUBKERNEL = 8
"""Rows or columns of the dilated window that one pass over an IFM block covers (Vela 5.2.0 ``SubKernelMax``)."""
_ROW_BYTES = 8
_UNIT_KERNEL = Kernel()
_ACCUMULATOR_BITS = {AccumulatorFormat.INT32: 32, AccumulatorFormat.INT40: 40, AccumulatorFormat.FP16: 16}


class BlockQuery(Struct, frozen=True):
    """Facts of an operation that decide which blocks fit.

    ``ofm`` is the shape that the operation writes (a stripe's, if it is striped), ``ifm_depth`` the channels that it reads. ``pool`` and
    ``elementwise`` are set only for their kinds. ``scalar`` says that the second operand is a register (IFM2_SCALAR), so that it takes no
    buffer. InputError if ``ifm_bits`` is not 8, 16 or 32.
    """

    kind: OperationKind
    ofm: Shape3D
    ifm_depth: int
    ifm_bits: int = 8
    kernel: Kernel = _UNIT_KERNEL
    pool: PoolKind | None = None
    elementwise: ElementwiseKind | None = None
    scalar: bool = False
    part_kernel: bool = False
    upscale: Upscale = Upscale.NONE
    lut: bool = False
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32

    def __post_init__(self) -> None:
        if self.ifm_bits not in (8, 16, 32):
            raise InputError(f"An IFM has {self.ifm_bits} bits: 8, 16 and 32 exist; quantise the network.")

    @classmethod
    def of(cls, op: KernelOperation) -> BlockQuery:
        """The query that an operation's registers describe."""
        return cls(
            kind=op.kind,
            ofm=op.ofm.shape,
            ifm_depth=op.ifm.shape.depth,
            ifm_bits=op.ifm.dtype.bits,
            kernel=op.kernel,
            pool=op.pool,
            elementwise=op.elementwise,
            # Vela's compiler still gives 32-bit scalars a buffer (Vela 5.2.0 regor ethos_u55.cpp).
            scalar=op.scalar is not None and op.ifm.dtype.bits < 32,
            part_kernel=op.part_kernel,
            upscale=op.upscale,
            lut=op.activation.kind is ActivationKind.LUT,
            accumulator=op.accumulator,
        )

    @property
    def is_equal_depth(self) -> bool:
        """Whether an OFM channel needs only its own IFM channel: elementwise, depthwise, maximum and average pooling."""
        return self.kind is not OperationKind.CONV_2D and self.pool is not PoolKind.REDUCE_SUM


def ifm_depth_step(ifm_bits: int, *, part_kernel: bool) -> int:
    """Channels of the IFM blocks that a convolution or reduce-sum walks through: 32, 16 or 8.

    32 for 8-bit IFMs, 16 for 16-bit ones and in part-kernel order, 8 for 32-bit ones (Vela 5.2.0 ``calc_ifm_block_depth``).

    >>> ifm_depth_step(8, part_kernel=False), ifm_depth_step(8, part_kernel=True), ifm_depth_step(32, part_kernel=False)
    (32, 16, 8)
    """
    return min(16 if part_kernel else 32, 256 // ifm_bits)


def _buffer_depth(query: BlockQuery, accelerator: Accelerator) -> int:
    """Channels of the IFM buffer of a convolution or reduce-sum; a 32-bit one is sized as if its step were 32, as in Vela."""
    if query.ifm_bits == 16:
        return round_up(min(query.ifm_depth, 16), 4)
    return round_up(min(query.ifm_depth, 16 if query.part_kernel else 32), accelerator.ifm_ublock.depth)


def _ifm_side(ofm: int, stride: int, dilated: int, upscale: Upscale, ublock: int) -> int:
    """Rows (or columns) of IFM under ``ofm`` rows of OFM for one sub-kernel, in whole ublocks."""
    needed = (ofm - 1) * stride + min(dilated, MAX_SUBKERNEL)
    if upscale is not Upscale.NONE:
        needed = ceil_div(needed + (upscale is Upscale.NEAREST), 2)
    return round_up(needed, ublock)


def ifm_block(query: BlockQuery, block: Shape3D, accelerator: Accelerator) -> Shape3D:
    """The IFM block that the buffer holds for one OFM block, in elements.

    Height and width are the elements that one sub-kernel (8 x 8 at most) reads, in whole ublocks; the depth is the OFM block's for
    equal-depth operations, else one IFM depth block. Source: Vela 5.2.0 ``architecture_allocator.py``.

    >>> from npu_model.accelerator import accelerator
    >>> query = BlockQuery(OperationKind.CONV_2D, Shape3D(8, 8, 16), ifm_depth=24, kernel=Kernel(3, 3))
    >>> str(ifm_block(query, Shape3D(4, 4, 16), accelerator("ethos-u55-128")))
    '6x6x24'
    """
    kernel, ublock = query.kernel, accelerator.ofm_ublock
    return Shape3D(
        _ifm_side(block.height, kernel.stride_y, kernel.dilated_height, query.upscale, ublock.height),
        _ifm_side(block.width, kernel.stride_x, kernel.dilated_width, query.upscale, ublock.width),
        block.depth if query.is_equal_depth else _buffer_depth(query, accelerator),
    )


def _banks(size: int, granule: int) -> int:
    """Banks of a double buffer of twice ``size`` bytes, in whole granules."""
    return round_up(2 * ceil_div(size, BANK_BYTES), granule)


def _ifm_granule(query: BlockQuery, accelerator: Accelerator) -> int:
    granules = accelerator.granules
    if query.kind is OperationKind.ELEMENTWISE:
        return {8: granules.ifm8_ew, 16: granules.ifm16_ew, 32: granules.ifm32}[query.ifm_bits]
    return {8: granules.ifm8, 16: granules.ifm16, 32: granules.ifm32}[query.ifm_bits]


def _ifm_banks(query: BlockQuery, block: Shape3D, accelerator: Accelerator) -> int:
    shape = ifm_block(query, block, accelerator)
    row = round_up(shape.depth * query.ifm_bits // 8, _ROW_BYTES)
    return _banks(shape.height * shape.width * row, _ifm_granule(query, accelerator))


def _accumulator_granule(query: BlockQuery, accelerator: Accelerator) -> int:
    granules = accelerator.granules
    return {
        AccumulatorFormat.INT32: granules.acc32,
        AccumulatorFormat.INT40: granules.acc40,
        AccumulatorFormat.FP16: granules.acc16,
    }[query.accumulator]


def _has_flat_accumulators(query: BlockQuery, accelerator: Accelerator) -> bool:
    """Whether accumulators are needed for one row only: ublocks have two rows, but OFM and kernel have one."""
    return query.ofm.height == 1 and query.kernel.height == 1 and accelerator.ofm_ublock.height == 2


def _accumulator_banks(query: BlockQuery, block: Shape3D, accelerator: Accelerator) -> int:
    granule = _accumulator_granule(query, accelerator)
    height = 1 if _has_flat_accumulators(query, accelerator) else block.height
    size = height * block.width * round_up(block.depth, 8) * _ACCUMULATOR_BITS[query.accumulator] // 8
    return _banks(size, granule)


def _is_unary(query: BlockQuery) -> bool:
    return query.elementwise is not None and query.elementwise.is_unary


def _lut_start(query: BlockQuery, accelerator: Accelerator) -> int:
    return accelerator.shram_banks - max(accelerator.reserved_lut_banks, accelerator.lut_banks if query.lut else 0)


def _is_block(block: Shape3D, accelerator: Accelerator) -> bool:
    limit, ublock = accelerator.max_block, accelerator.ofm_ublock
    return (
        0 < block.height <= limit.height
        and 0 < block.width <= limit.width
        and 0 < block.depth <= limit.depth
        and block.height % ublock.height == block.width % ublock.width == block.depth % ublock.depth == 0
    )


def shram_partition(query: BlockQuery, block: Shape3D, accelerator: Accelerator) -> Shram | None:
    """Bank numbers of the buffers for this OFM block, as the registers hold them; None if they do not fit.

    The output buffer is at the bottom, then the IFM buffer (and a second buffer for the other operand of a binary elementwise operation).
    The banks for the LUT are at the top, then the accumulators (none for elementwise). Every buffer is double. A block that is not in whole
    ublocks or exceeds the largest block gives None. Source: Vela 5.2.0 ``architecture_allocator.py``; equal to the registers of every
    kernel that Vela emits.
    """
    if not _is_block(block, accelerator):
        return None
    lut_start = _lut_start(query, accelerator)
    banks = _ifm_banks(query, block, accelerator)
    ib_end = accelerator.reserved_output_banks + banks
    if query.kind is OperationKind.ELEMENTWISE:
        # A unary operation reserves the second buffer as well, though no register points to it.
        if ib_end + (0 if query.scalar else banks) > lut_start:
            return None
        return Shram(ib_end=lut_start, ab_start=lut_start, ib2_start=0 if _is_unary(query) else ib_end)
    ab_start = lut_start - _accumulator_banks(query, block, accelerator)
    return Shram(ib_end=ib_end, ab_start=ab_start) if ib_end <= ab_start else None


def flat_query(query: BlockQuery, accelerator: Accelerator) -> array[int]:
    """The query for the compiled core: queries of equal numbers have equal partitions."""
    kernel, ublock, limit = query.kernel, accelerator.ofm_ublock, accelerator.max_block
    is_elementwise = query.kind is OperationKind.ELEMENTWISE
    numbers = (
        *(is_elementwise, _is_unary(query), query.scalar, query.ifm_bits, query.upscale.code),
        *(0 if query.is_equal_depth else _buffer_depth(query, accelerator), _has_flat_accumulators(query, accelerator)),
        *(_ACCUMULATOR_BITS[query.accumulator], kernel.stride_y, kernel.stride_x, kernel.dilated_height, kernel.dilated_width),
        *(ublock.height, ublock.width, ublock.depth, limit.height, limit.width, limit.depth),
        *(_ifm_granule(query, accelerator), _accumulator_granule(query, accelerator)),
        *(_lut_start(query, accelerator), accelerator.reserved_output_banks),
    )
    return array("q", numbers)


class ShramQuery:
    """The query of :func:`shram_partition` for many blocks, given as heights, widths and depths in turn."""

    def __init__(self, query: BlockQuery, accelerator: Accelerator) -> None:
        self._query = query
        self._accelerator = accelerator
        self._flat: array[int] | None = None

    def fitting(self, blocks: array[int], count: int, *, distinct: bool = False) -> list[tuple[int, Shram]]:
        """The first ``count`` fitting blocks by number, with their partitions; with ``distinct``, one block for each partition."""
        if _NATIVE is None:
            return self._fitting(blocks, count, distinct=distinct)
        if self._flat is None:
            self._flat = flat_query(self._query, self._accelerator)
        numbers = iter(array("q", _NATIVE.shram_fitting(self._flat, blocks, array("q", (count, distinct)))))
        return [(number, Shram(*one)) for number, *one in zip(numbers, numbers, numbers, numbers, strict=True)]

    def _fitting(self, blocks: array[int], count: int, *, distinct: bool) -> list[tuple[int, Shram]]:
        sides, found = iter(blocks), list[tuple[int, Shram]]()
        for number, block in enumerate(zip(sides, sides, sides, strict=True)):
            if len(found) == count:
                break
            shram = shram_partition(self._query, Shape3D(*block), self._accelerator)
            if shram is not None and not (distinct and any(shram == one for _, one in found)):
                found.append((number, shram))
        return found
