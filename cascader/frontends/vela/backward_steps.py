"""Kernels that write backwards, as kernels of one row or one column each, which write forwards.

Vela lowers what MIRROR_PAD reflects to a copy whose OFM has a negative stride. The cascader's stripes count rows and columns upwards;
a kernel of one row has no direction. A reflection is a few rows or columns wide, so that few kernels take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npu_model.errors import InputError
from npu_model.program import FeatureMap, KernelOperation, Strides
from npu_model.shapes import Shape3D


def _piece(feature_map: FeatureMap, y: int, x: int, shape: Shape3D) -> FeatureMap:
    """The map's elements from (y, x) on, a single one along each axis that steps backwards."""
    strides = Strides(abs(feature_map.strides.y), abs(feature_map.strides.x), feature_map.strides.c)
    return replace(feature_map.at(feature_map.address(y, x, 0), shape), strides=strides)


def moves_elements(operation: KernelOperation) -> bool:
    """Whether each element of the OFM is made of the same element of the IFM alone."""
    kernel, padding = operation.kernel, operation.padding
    return (
        operation.ifm2 is None
        and operation.ifm.shape == operation.ofm.shape
        and (kernel.height, kernel.width, kernel.stride_y, kernel.stride_x) == (1, 1, 1, 1)
        and not any((padding.top, padding.left, padding.bottom, padding.right))
        and operation.ifm.is_single_tile
        and operation.ofm.is_single_tile
    )


def forwards(operation: KernelOperation) -> Iterator[KernelOperation]:
    """The kernels that do what ``operation`` does without a backward step; ``operation`` itself if it has none.

    InputError if it does more than move elements, as no kernel of Vela 5.2 with a backward step does.
    """
    strides, shape = operation.ofm.strides, operation.ofm.shape
    backward_y, backward_x = strides.y < 0 and shape.height > 1, strides.x < 0 and shape.width > 1
    inputs = [m for m in (operation.ifm, operation.ifm2) if m is not None]
    reads_backwards = any(min(m.strides.y, m.strides.x, m.strides.c) < 0 for m in inputs)
    if not (backward_y or backward_x or reads_backwards or min(strides.y, strides.x, strides.c) < 0):
        yield operation
        return
    if reads_backwards or strides.c < 0 or not moves_elements(operation):
        raise InputError(f"A kernel ({operation.mnemonic}) has a negative stride and does more than a copy: keep that operator on the CPU.")
    height, width = (1 if backward_y else shape.height), (1 if backward_x else shape.width)
    piece = Shape3D(height, width, shape.depth)
    for y in range(0, shape.height, height):
        for x in range(0, shape.width, width):
            yield replace(operation, ifm=_piece(operation.ifm, y, x, piece), ofm=_piece(operation.ofm, y, x, piece))
