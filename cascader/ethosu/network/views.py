"""Views of kernels: their feature maps as arrays in the bytes of tensors, with a Propagator each, for rows and stripes of any axes."""

from __future__ import annotations

from functools import lru_cache

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import EthosuPart, tensor_reads
from cascader.ethosu.network.operators import operand_propagator
from cascader.graph.views import Cut, OperandView, PartViews, View
from npu_model.program import BRICK, LONGEST_STRIDE, FeatureMap, KernelOperation, Layout, Padding, PoolKind, Upscale

ANY = Cut()
"""Stripes may begin at any element, and have any number of them."""


def view_of(feature_map: FeatureMap) -> View:
    """A feature map as an array of batch, height, width and channels in its tensor; a map of several tiles is not regular."""
    shape, strides, size = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    bricks = feature_map.layout is Layout.NHCWB16
    ranges = feature_map.byte_ranges()
    return View(
        shape=(1, shape.height, shape.width, shape.depth),
        base=feature_map.base,
        steps=(0, strides.y, BRICK * size if bricks else strides.x, size),
        extent=(ranges[0].start, max(span.end for span in ranges)),
        block=BRICK if bricks else 0,
        block_step=strides.c if bricks else 0,
        regular=feature_map.is_single_tile,
    )


def _cut(operation: KernelOperation, axis: Axis) -> Cut | None:
    """Say where a kernel may be cut along an axis; None if nowhere.

    The upscaler begins with the first copy of an IFM element, so the first one that a stripe reads must be one, unless it is padding. An
    average with padding divides by the elements inside its map, an average without by its scale. So each stripe must have padding next to
    it.
    """
    window = axis.window(operation)
    if operation.pool is PoolKind.AVERAGE and operation.padding != Padding() == axis.padding(operation.padding, 0, 0):
        return None
    if operation.upscale is Upscale.NONE:
        return Cut(most=1) if window.stride > LONGEST_STRIDE else ANY
    return Cut(2, window.pad % 2) if window.stride == 1 else None


@lru_cache(1 << 12)  # Forms of a network share most kernels.
def part_views(payload: EthosuPart) -> PartViews:
    """The views of a kernel; batch and channels are never cut by the NPU's stripes, but may be by others."""
    operation = payload.operation
    return PartViews(
        output=payload.ofm,
        view=view_of(operation.ofm),
        operands=tuple(OperandView(name, view_of(read), operand_propagator(operation, read)) for name, read in tensor_reads(payload)),
        cuts=(ANY, _cut(operation, Axis.ROWS), _cut(operation, Axis.COLUMNS), ANY),
    )
