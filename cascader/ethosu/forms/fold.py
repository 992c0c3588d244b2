"""Folding: convolutions that step over every other column of an image read each pair of columns as one column.

An image of few channels leaves most of the MAC array idle, which takes 8 or 32 channels at a time. Two columns of C channels lie in memory
as one of 2 C channels does (NHWC). A convolution with a stride of 2 in x becomes a convolution with a stride of 1 on half the columns, with
half the taps: the same bytes, the same mathematics, fewer steps. A window that begins or ends between two pairs gets a column of zeros.
Vela's Python core does so, too; the networks come from its other core.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import Ranking
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.workbench import Workbench, in_best_block
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator
from npu_model.program import FeatureMap, KernelOperation, Layout, OperationKind, Strides
from npu_model.shapes import Shape3D, ceil_div
from npu_model.weight_stream.streams import has_streams

DEEPEST = 4
"""The most channels for which folding pays: more channels fill the array's 8 anyway (Vela's Python core has the same bound)."""


def _may_be_folded(operation: KernelOperation) -> bool:
    ifm, kernel = operation.ifm, operation.kernel
    dense = ifm.layout is Layout.NHWC and ifm.strides.x == ifm.shape.depth * ifm.dtype.bytes and ifm.shape.depth <= DEEPEST
    steps = kernel.stride_x == 2 and kernel.dilation_x == 1 and kernel.width > 1
    return (
        operation.kind is OperationKind.CONV_2D
        and dense
        and ifm.is_single_tile
        and steps
        and has_streams(operation)
        and ifm.shape.width % 2 == 0
    )


def _pairs(feature_map: FeatureMap) -> FeatureMap:
    """The same bytes, with each pair of columns as one."""
    shape, strides = feature_map.shape, feature_map.strides
    return replace(
        feature_map,
        shape=Shape3D(shape.height, shape.width // 2, 2 * shape.depth),
        strides=Strides(strides.y, 2 * strides.x, strides.c),
        tiles=replace(feature_map.tiles, width0=max(1, feature_map.tiles.width0 // 2)),
    )


def _folded(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> KernelOperation | None:
    """The operation on pairs of columns, with its old weights; None if it gains nothing or no block fits."""
    left = ceil_div(operation.padding.left, 2)
    width = ceil_div(operation.padding.left % 2 + operation.kernel.width, 2)
    ifm = _pairs(operation.ifm)
    right = max(0, operation.ofm.shape.width - 1 - left + width - ifm.shape.width)
    kernel = replace(operation.kernel, width=width, stride_x=1)
    padding = replace(operation.padding, left=left, right=right)
    changed = replace(operation, ifm=ifm, kernel=kernel, padding=padding, part_kernel=True)
    best = in_best_block(changed, accelerator, (sources,))
    before = Ranking(operation, accelerator, sources).own_cycles
    return best.operation if best is not None and best.cycles[0] < before else None


def _encoded(before: KernelOperation, after: KernelOperation, bench: Workbench) -> KernelOperation:
    """``after`` with the weights of ``before`` for pairs of columns. They are zero where a window begins or ends inside a pair."""
    weights = bench.weights(before)
    depth, height, width, channels = weights.shape
    even = np.zeros((depth, height, 2 * after.kernel.width, channels), weights.dtype)
    first = before.padding.left % 2
    even[:, :, first : first + width] = weights
    return bench.with_weights(after, even.reshape(depth, height, after.kernel.width, 2 * channels))


def folded(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with every convolution on pairs of columns that is faster this way."""
    bench, made = Workbench(network, accelerator), dict[str, KernelOperation]()
    for name, kernel in network.kernels.items():
        operation = kernel.operation
        changed = _folded(operation, accelerator, sources) if _may_be_folded(operation) else None
        if changed is not None:
            made[name] = _encoded(operation, changed, bench)
    return bench.changed(made)
