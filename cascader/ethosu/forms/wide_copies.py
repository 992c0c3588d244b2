"""Wide copies: a kernel that only copies bytes takes two or four of them as one element, without the MAC array, if that is faster.

A compiler copies a tensor by an average over single elements, which goes through the MAC array: an element of 8 bits a cycle on 128 MACs.
The minimum of a 16-bit element and the largest value is the element itself. A 32-bit element shifted by 0 stays the same, too. So the
elementwise units copy bytes, four a cycle on 128 MACs.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import gcd

from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.workbench import BestBlock, in_best_block, of_depth
from cascader.ethosu.job.feature_maps import row_bytes
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    DataType,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    Layout,
    OperationKind,
    Padding,
    PoolKind,
    Rounding,
    Strides,
    Tiles,
    Upscale,
)
from npu_model.shapes import Shape3D, round_up

_INT16, _INT32 = DataType(16, signed=True), DataType(32, signed=True)
_COPYING = ((_INT16, ElementwiseKind.MIN, _INT16.maximum), (_INT32, ElementwiseKind.SHL, 0))
"""Element types, and the operation and its scalar operand that copy such elements.

Compilers use these operations on the same element sizes.
"""
_WIDTH = 1 << 16
"""The most columns in the registers of a feature map."""
_WORTHWHILE = Fraction(3, 4)
"""The largest part of a copy's cycles that a wide one may take: a small copy gains little, but can no longer be cut between any two bytes.

Otherwise RNNoise would need 960 bytes instead of 944.
"""


def _keeps_values(operation: KernelOperation) -> bool:
    """Whether each element becomes itself: type, zero point and clamp change nothing, and the factor rounds to 1."""
    ifm, ofm, activation, factor = operation.ifm, operation.ofm, operation.activation, operation.ofm_scale
    typed = (ifm.dtype, ifm.zero_point, ifm.shape) == (ofm.dtype, ofm.zero_point, ofm.shape) and ifm.dtype.bits <= _INT16.bits
    clamped = activation.kind is not ActivationKind.NONE or activation.minimum > ofm.dtype.minimum or activation.maximum < ofm.dtype.maximum
    # An error of less than half a step in the largest value, zero point subtracted, is rounded away.
    largest = ofm.dtype.maximum - ofm.dtype.minimum
    one = 2 * largest * abs(factor.scale - (1 << factor.shift)) < 1 << factor.shift and operation.rounding is not Rounding.TRUNCATE
    return typed and not clamped and (operation.pool is PoolKind.MAX or (operation.global_scale and one))


def is_copy(operation: KernelOperation) -> bool:
    """Whether the operation is a pool of single elements that writes the values that it reads."""
    plain = operation.kernel == Kernel() and operation.padding == Padding() and operation.upscale is Upscale.NONE
    pooled = operation.kind is OperationKind.POOL and operation.pool in (PoolKind.AVERAGE, PoolKind.MAX)
    return pooled and plain and _keeps_values(operation)


def _row(feature_map: FeatureMap) -> int | None:
    """Bytes of a row of a one-tile map whose bytes are contiguous in the order of its elements; None for another map.

    A map of several bricks may yet get another layout, so it stays.
    """
    row = row_bytes(feature_map) if feature_map.is_single_tile else None
    return row if feature_map.layout is Layout.NHWC or feature_map.strides.y == row else None


def _of_type(feature_map: FeatureMap, row: int, dtype: DataType) -> FeatureMap | None:
    """The same bytes, ``row`` in each row, as elements of another type; None if a row does not begin and end at such an element."""
    strides, start = feature_map.strides, feature_map.base
    if (start | strides.y | row) % dtype.bytes or row // dtype.bytes > _WIDTH:
        return None
    depth = gcd(row // dtype.bytes, BRICK)
    shape = Shape3D(feature_map.shape.height, row // dtype.bytes // depth, depth)
    strides = Strides(strides.y, depth * dtype.bytes, dtype.bytes)
    return FeatureMap(feature_map.region, shape, dtype, Layout.NHWC, Tiles.single(shape, start), strides)


def wide_copies(operation: KernelOperation) -> Iterator[KernelOperation]:
    """The operation, if it copies rows without gaps, as other operations that copy the same bytes, before their blocks are chosen."""
    row = _row(operation.ifm)
    if not is_copy(operation) or row is None or row != _row(operation.ofm):
        return
    for dtype, kind, scalar in _COPYING:
        ifm, ofm = (_of_type(feature_map, row, dtype) for feature_map in (operation.ifm, operation.ofm))
        if ifm is not None and ofm is not None:
            clamp = Activation(ActivationKind.NONE, _INT16.minimum, _INT16.maximum)
            block, shram = operation.block, operation.shram
            mode = operation.parallel_mode
            yield KernelOperation(
                OperationKind.ELEMENTWISE, ifm, ofm, block, shram, clamp, elementwise=kind, scalar=scalar, parallel_mode=mode
            )


def _best(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> BestBlock | None:
    """The operation in its best block."""
    depth = min(BRICK, round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth))
    return in_best_block(of_depth(operation, depth, accelerator), accelerator, (sources,))


def _fastest(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> KernelOperation:
    """The operation, or one that copies the same bytes in at most :data:`_WORTHWHILE` of its cycles."""
    made = [best for other in wide_copies(operation) if (best := _best(other, accelerator, sources)) is not None]
    now = _best(operation, accelerator, sources) if made else None
    if now is None:
        return operation
    least = min(made, key=lambda best: best.cycles)
    return least.operation if sum(least.cycles) <= sum(now.cycles) * _WORTHWHILE else operation


def copy_cycles(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> float | None:
    """Cycles of the fastest kernel for a copy; None if no block suits any kernel."""
    made = (_best(other, accelerator, sources) for other in (operation, *wide_copies(operation)))
    return min((sum(best.cycles) for best in made if best is not None), default=None)


def with_wide_copies(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with wider elements in each kernel that only copies rows without gaps, if that is estimated to be faster."""
    kernels = {name: kernel for name, kernel in network.kernels.items() if not kernel.transfer}
    made = {name: (kernel, _fastest(kernel.operation, accelerator, sources)) for name, kernel in kernels.items()}
    changed = {name: replace(kernel, operation=o) for name, (kernel, o) in made.items() if o is not kernel.operation}
    return network.with_kernels(changed) if changed else network
