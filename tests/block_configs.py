"""Every OFM block that an operation can be run with, one after the other, and the accumulators that Vela chooses for it."""

from __future__ import annotations

from functools import lru_cache

from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import AccumulatorFormat, OperationKind, PoolKind
from npu_model.shapes import Shape3D, round_up

VELA_API_STEP = 2
"""Heights and widths that ``ethosu.vela.api.npu_find_block_configs`` lists are multiples of this, upscaled IFM or not."""


def _depths(depth: int, accelerator: Accelerator) -> list[int]:
    """Block depths: whole ublocks; a depth that splits the OFM is a multiple of the split depth."""
    limit, step = min(accelerator.max_block.depth, depth), accelerator.ofm_ublock.depth
    return [d for d in range(step, limit + step, step) if d >= limit or d % accelerator.ofm_split_depth == 0]


@lru_cache(maxsize=4096)
def valid_blocks(query: BlockQuery, accelerator: Accelerator, step: int = 1) -> tuple[Shape3D, ...]:
    """Every OFM block that fits into SHRAM and is no larger than the OFM in whole ublocks, in ascending order.

    Heights and widths are multiples of the ublock and of ``step``. The hardware takes ``step`` 1, and Vela's compiler
    chooses among those blocks; with :data:`VELA_API_STEP` the result is the set that Vela's public interface lists.
    """
    height_step = max(accelerator.ofm_ublock.height, step)
    width_step = max(accelerator.ofm_ublock.width, step)
    heights = range(height_step, round_up(min(accelerator.max_block.height, query.ofm.height), height_step) + 1, height_step)
    widths = range(width_step, round_up(min(accelerator.max_block.width, query.ofm.width), width_step) + 1, width_step)
    blocks = []
    for depth in _depths(query.ofm.depth, accelerator):
        for height in heights:
            fitting = []
            for width in widths:
                block = Shape3D(height, width, depth)
                # Buffers only grow with the block, so the first that does not fit ends the row, and an empty row the depth.
                if shram_partition(query, block, accelerator) is None:
                    break
                fitting.append(block)
            if not fitting:
                break
            blocks += fitting
    return tuple(sorted(blocks))


def accumulator_format(kind: OperationKind, pool: PoolKind | None, ifm_bits: int, *, scaled: bool) -> AccumulatorFormat:
    """40-bit accumulators for scaled operations on 16-bit IFMs other than maximum and average pooling, else 32-bit.

    Source: Vela 5.2.0 ``architecture_allocator.py`` and regor ``ethos_u55.cpp``.
    """
    pooling = kind is OperationKind.POOL and pool is not PoolKind.REDUCE_SUM
    return AccumulatorFormat.INT40 if ifm_bits == 16 and scaled and not pooling else AccumulatorFormat.INT32
