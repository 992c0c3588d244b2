"""Blocks and estimates of rewritten kernels, by which forms of a network are compared before anything is searched."""

from __future__ import annotations

from collections.abc import Mapping

from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.network import EthosuPart
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import KernelOperation


def kernel_cycles(kernels: Mapping[str, EthosuPart], accelerator: Accelerator, sources: Sources) -> dict[str, float]:
    """Estimated cycles of some kernels, each in its best block of the depth of its weights."""
    return {name: choose_block(kernel.operation, accelerator, sources)[1] for name, kernel in kernels.items()}


def fitted(operation: KernelOperation, accelerator: Accelerator) -> KernelOperation | None:
    """The operation with the partition of the shared buffer for its block; None if the block does not fit."""
    shram = shram_partition(BlockQuery.of(operation), operation.block, accelerator)
    return operation.having(shram=shram) if shram is not None else None
