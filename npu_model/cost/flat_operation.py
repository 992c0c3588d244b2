"""Flat operations: one row of integers with everything that decides the work of a kernel's blocks, for the compiled core.

Kernels with equal rows do equal work, even with other names, addresses or functions.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import chain

from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import kernel_step_delay, ofm_ublock, output_rate
from npu_model.cost.shram import ifm_depth_step
from npu_model.cost.traversal import reduces_depth
from npu_model.program import ByteRange, FeatureMap, KernelOperation, Layout, OperationKind, Shram, Upscale
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.order import WeightFormat

_DEEP, _OWN_DEPTH, _ELEMENTWISE = range(3)
_PACE_NONE, _PACE_POOL, _PACE_DEPTHWISE, _PACE_PART_KERNEL, _PACE_DEPTH_FIRST = range(5)

_NO_MAP = (0,) * 16
_NO_WORK = array("q")

_ADDRESSES = 1 << 40
"""Size of a stream's address space. Strides are taken modulo it, so that no number in the core is negative."""

LARGEST_WORD = 16
"""Bytes of the widest port: an address counts only by its position inside such a word."""


def _map(feature_map: FeatureMap | None) -> tuple[int, ...]:
    """The numbers of a feature map. An address counts only by its position inside a word."""
    if feature_map is None:
        return _NO_MAP
    shape, tiles, strides = feature_map.shape, feature_map.tiles, feature_map.strides
    a, b, c, d = tiles.bases
    return (
        1,
        feature_map.region,
        shape.height,
        shape.width,
        shape.depth,
        feature_map.layout is Layout.NHCWB16,
        feature_map.dtype.bytes,
        strides.y % _ADDRESSES,
        strides.x % _ADDRESSES,
        tiles.height0,
        tiles.height1,
        tiles.width0,
        a % LARGEST_WORD,
        b % LARGEST_WORD,
        c % LARGEST_WORD,
        d % LARGEST_WORD,
    )


def _kind(op: KernelOperation) -> int:
    if op.kind is OperationKind.ELEMENTWISE:
        return _ELEMENTWISE
    return _DEEP if reduces_depth(op) else _OWN_DEPTH


def _pace(op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, *, is_known: bool) -> tuple[int, ...]:
    """The numbers from which the core computes :func:`npu_model.cost.cycles.mac_pace`.

    They are its case, the decoder's floor, bytes of an element, passes of pooling, floor of pooling, delay of depthwise, half of pooling
    and fill of pooling.
    """
    size, kind = op.ifm.dtype.bytes, op.kind
    if kind is OperationKind.ELEMENTWISE:
        return _PACE_NONE, 0, size, 1, 0, 0, 0, 0
    if kind is OperationKind.POOL and not reduces_depth(op):
        half, floor = ceil_div(timing.pool_floor, 2), timing.pool_floor
        passes = 2 if size == 2 and accelerator.macs > 32 else 1
        return _PACE_POOL, 0, size, passes, floor, 0, *((half, half) if timing.pool_passes else (floor, 0))
    has_floor = kind is not OperationKind.POOL and (kind is OperationKind.DEPTHWISE or size == 2 or not is_known)
    floor = timing.decoder_cycles_per_channel * ofm_ublock(op, accelerator).depth if has_floor else 0
    if kind is OperationKind.DEPTHWISE:
        return _PACE_DEPTHWISE, floor, size, 1, 0, kernel_step_delay(op, accelerator) if timing.depthwise_delays else 0, 0, 0
    return _PACE_PART_KERNEL if op.part_kernel else _PACE_DEPTH_FIRST, floor, size, 1, 0, 0, 0, 0


def _ranges(ranges: tuple[ByteRange, ...], modulus: int) -> list[int]:
    return [number for where in ranges for number in (where.region, where.start % modulus, where.end - where.start)]


_BLOCK = 5
"""Position of a block's height, width and depth in a row."""

_NO_BLOCK, _NO_SHRAM = Shape3D(0, 0, 0), Shram(0, 0)


def flat_operation(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, *, is_known: bool, modulus: int = LARGEST_WORD
) -> array[int]:
    """The row of an operation; ``is_known`` says that the decoder's work for its streams is given too.

    Addresses of constants count modulo ``modulus`` bytes: for the alignment of their transactions, or inside a word.
    """
    row, block = _in_any_block(op.having(block=_NO_BLOCK, shram=_NO_SHRAM), accelerator, timing, is_known, modulus)[:], op.block
    row[_BLOCK : _BLOCK + 3] = array("q", (block.height, block.width, block.depth))
    return row


@lru_cache(maxsize=1024)
def _in_any_block(
    op: KernelOperation,
    accelerator: Accelerator,
    timing: TimingParameters,
    is_known: bool,  # noqa: FBT001  # a cache knows arguments by their places
    modulus: int,
) -> array[int]:
    """The row of an operation in any block: the same kernel is tried in many."""
    ofm, block, kernel, padding, ublock = op.ofm.shape, op.block, op.kernel, op.padding, ofm_ublock(op, accelerator)
    rate, divisor = output_rate(op, accelerator, timing).as_integer_ratio()
    kind = _kind(op)
    head = (
        *(kind, accelerator.port_bytes_per_cycle, ofm.height, ofm.width, ofm.depth, block.height, block.width, block.depth),
        *(kernel.stride_y, kernel.stride_x, kernel.dilation_y, kernel.dilation_x, padding.top, padding.left),
        *(op.upscale is not Upscale.NONE, kernel.height, kernel.width, *WeightFormat.of(op).subkernel),
        ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel) if kind == _DEEP else 1,
        *(timing.kept_ifm_blocks, timing.aligned_bursts, rate, divisor, timing.output_start_cycles),
        *_pace(op, accelerator, timing, is_known=is_known),
        timing.weights_at_once if op.kind is OperationKind.CONV_2D else 0,
        *(ublock.height, ublock.width, ublock.depth * accelerator.cores),
        *(
            timing.decoder_cycles_per_channel,
            is_known,
            accelerator.cores,
            len(op.weights),
            len(op.scales),
            accelerator.access.ifm_ahead,
            accelerator.access.own_channels,
        ),
    )
    maps = *_map(op.ifm), *_map(op.ifm2), *_map(op.ofm)
    # An array is built from a tuple in half the time that it takes from an iterator.
    return array("q", (*head, *maps, *_ranges(op.weights, modulus), *_ranges(op.scales, modulus)))


@lru_cache(maxsize=1024)
def flat_decoding(work: tuple[DecoderWork, ...]) -> array[int]:
    """The decoder's work: for each core the bits and then the turns up to the end of each step."""
    if not work:
        return _NO_WORK
    return array("q", chain.from_iterable(chain(core.bits, core.turns) for core in work))
