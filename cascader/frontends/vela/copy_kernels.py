"""Kernels in place of transfers within the arena: an average over single elements writes them anew.

A kernel, unlike a transfer, takes part in a cascade.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    Binding,
    ByteRange,
    DataType,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    PoolKind,
    Scale,
    Strides,
    Tiles,
)
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D, round_up

_UNIT = Scale((1 << 31) + 1, 31)
"""The factor 1 of an average pooling over one element, as Vela 5.2 has it in its own copies."""

_BYTE = DataType(8, signed=False)
_WIDEST = 16
"""Bits of the widest elements that a pooling reads."""


def _flat(region: int, start: int, shape: Shape3D, dtype: DataType) -> FeatureMap:
    """An array without gaps; elements too wide for a pooling are several bytes deep."""
    if dtype.bits > _WIDEST or dtype.floating:
        shape, dtype = Shape3D(shape.height, shape.width, shape.depth * dtype.bytes), _BYTE
    column = shape.depth * dtype.bytes
    strides = Strides(shape.width * column, column, dtype.bytes)
    return FeatureMap(region, shape, dtype, Layout.NHWC, Tiles.single(shape, start), strides)


def _is_whole(found: FeatureMap, copied: ByteRange) -> bool:
    """Whether the map is the copied bytes as an array without gaps, but for what rounds their number up.

    A transfer's length is a multiple of 16, so that the copy may be up to 15 bytes longer than the tensor.
    """
    flat = _flat(found.region, copied.start, found.shape, found.dtype)
    size = found.shape.elements * found.dtype.bytes
    return round_up(size, ALIGNMENT) == round_up(copied.length, ALIGNMENT) and found.same_places(flat)


def _of_binding(binding: Binding, start: int) -> FeatureMap:
    width, depth = (1, 1, *binding.shape)[-2:]
    return _flat(binding.region, start, Shape3D(prod(binding.shape[:-2]), width, depth), binding.dtype)


def copied_map(copied: ByteRange, written: Iterable[FeatureMap], bindings: Iterable[Binding]) -> FeatureMap:
    """The copied bytes as a feature map: as who writes them has them, so that the copy can be made stripe by stripe, or bound to them.

    ``written`` are the OFMs in the arena, ``bindings`` the tensors there or where the copy goes.
    """
    for ofm in written:
        if ofm.dtype.bits <= _WIDEST and _is_whole(ofm, copied):
            return replace(ofm, zero_point=0)
    for binding in bindings:
        found = _of_binding(binding, copied.start)
        if _is_whole(found, copied):
            return found
    return _flat(copied.region, copied.start, Shape3D(1, copied.length // ALIGNMENT, ALIGNMENT), _BYTE)


def copy_kernel(source: FeatureMap, destination: int, device: Accelerator) -> KernelOperation:
    """The kernel that writes ``source`` to the address ``destination`` of the same region."""
    ofm = source.at(destination)
    operation = KernelOperation(
        OperationKind.POOL,
        source,
        ofm,
        device.ofm_ublock,
        Shram(0, 0),
        Activation(ActivationKind.NONE, ofm.dtype.minimum, ofm.dtype.maximum),
        pool=PoolKind.AVERAGE,
        global_scale=True,
        ofm_scale=_UNIT,
    )
    return _with_block(operation, device)


def _with_block(operation: KernelOperation, device: Accelerator) -> KernelOperation:
    """The operation with the largest block that fits of those halved until one does; the search looks at others."""
    ublock, limit, ofm = device.ofm_ublock, device.max_block, operation.ofm.shape
    query = BlockQuery.of(operation)
    height = min(limit.height, round_up(ofm.height, ublock.height))
    width = min(limit.width, round_up(ofm.width, ublock.width))
    depth = min(BRICK, round_up(ofm.depth, ublock.depth))
    while (shram := shram_partition(query, Shape3D(height, width, depth), device)) is None:
        if width >= height:
            width = round_up(width // 2, ublock.width)
        else:
            height = round_up(height // 2, ublock.height)
    return replace(operation, block=Shape3D(height, width, depth), shram=shram)
