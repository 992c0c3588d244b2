"""Blocks and estimates of rewritten kernels, by which forms of a network are compared before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cascader.ethosu.cost.block_choice import choose_block, choose_blocks
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.network import EthosuPart
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import BRICK, KernelOperation
from npu_model.shapes import Shape3D, round_up
from npu_model.values import dataclass


def kernel_cycles(kernels: Mapping[str, EthosuPart], accelerator: Accelerator, sources: Sources) -> dict[str, float]:
    """Estimated cycles of some kernels, each in its best block of the depth of its weights."""
    return {name: choose_block(kernel.operation, accelerator, sources)[1] for name, kernel in kernels.items()}


def fitted(operation: KernelOperation, accelerator: Accelerator) -> KernelOperation | None:
    """The operation with the partition of the shared buffer for its block; None if the block does not fit."""
    shram = shram_partition(BlockQuery.of(operation), operation.block, accelerator)
    return operation.having(shram=shram) if shram is not None else None


def of_depth(operation: KernelOperation, depth: int, accelerator: Accelerator) -> KernelOperation:
    """The operation with the smallest block of so many channels."""
    return operation.having(block=Shape3D(accelerator.ofm_ublock.height, accelerator.ofm_ublock.width, depth))


@dataclass(frozen=True, slots=True)
class BestBlock:
    """An operation in the best block of its depth, its weights still those of the old block, and its cycles from each of some sources."""

    operation: KernelOperation
    cycles: tuple[float, ...]


def in_best_block(
    operation: KernelOperation, accelerator: Accelerator, sources: Sequence[Sources], decoding: int | None = None
) -> BestBlock | None:
    """The operation in the block of its depth that is best for the first of the sources; None if none fits."""
    if fitted(operation, accelerator) is None:
        return None
    found = choose_blocks(operation, accelerator, sources, decoding)
    best = fitted(operation.having(block=found[0][0]), accelerator)
    return BestBlock(best, tuple(cycles for _, cycles in found)) if best is not None else None


def in_best_depth(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> BestBlock | None:
    """The operation in the best block of any depth and order of weights; None if none fits."""
    depth = round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth)
    depths = sorted({min(depth, accelerator.max_block.depth), *(some for some in (BRICK, 2 * BRICK, 4 * BRICK) if some < depth)})
    orders = [replace(operation, part_kernel=part_kernel) for part_kernel in (False, True)]
    found = [in_best_block(of_depth(order, deep, accelerator), accelerator, (sources,)) for deep in depths for order in orders]
    return min((best for best in found if best is not None), key=lambda best: best.cycles, default=None)
