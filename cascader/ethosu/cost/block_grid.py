"""Block configs worth a try for an OFM: a grid of heights, widths and depths that the device allows."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, KernelOperation
from npu_model.shapes import Shape3D, ceil_div, round_up

Numbers = npt.NDArray[np.int64]

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried besides even divisions of the OFM; a search over all gains less than 1 % more."""


def _sides(extent: int, ublock: int, limit: int) -> list[int]:
    """Block sides worth a try: whole ublocks, up to the OFM's extent."""
    even = (ceil_div(extent, parts) for parts in range(1, 5))
    rounded = {round_up(side, ublock) for side in (*SIDES, *even)}
    return sorted(side for side in rounded if side <= min(limit, round_up(extent, ublock)))


@lru_cache(maxsize=4096)
def _grid(extent: Shape3D, depths: tuple[int, ...], accelerator: Accelerator) -> Numbers:
    """Blocks of the given depths for an OFM of ``extent``: a row of height, width and depth each."""
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _sides(extent.height, ublock.height, limit.height), _sides(extent.width, ublock.width, limit.width)
    found = np.array(list(product(heights, widths, depths)), np.int64).reshape(-1, 3)
    found.flags.writeable = False
    return found


def candidates(op: KernelOperation, accelerator: Accelerator) -> Numbers:
    """Blocks of the depth that the weights are encoded for, of any allowed depth where there are none."""
    ofm, limit = op.ofm.shape, accelerator.max_block
    depths = {op.block.depth}
    if not op.weights:
        depths |= {min(limit.depth, round_up(d, BRICK)) for d in (16, 32, 64, 128) if d < ofm.depth}
        if ofm.depth <= limit.depth:
            depths.add(round_up(ofm.depth, accelerator.ofm_ublock.depth))
    return _grid(ofm, tuple(sorted(depths)), accelerator)


def block_counts(shape: Shape3D, blocks: Numbers) -> Numbers:
    """Numbers of OFM blocks of several sizes (rows of height, width and depth) that make an OFM."""
    counts: Numbers = np.prod(-(np.array([(shape.height, shape.width, shape.depth)], np.int64) // -blocks), axis=1)
    return counts
