"""Averages of sums: products with a factor of at most 31 bits that rounds every sum of a window to the same average as the pool's own.

A product of 32 bits takes the factor as a signed operand. Vela 5.2 gives an average of n elements the factor (2**(31 + k) + 2**k) // n,
where 2**k is at least n. That factor has 32 bits.
"""

from __future__ import annotations

from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.network.network import CONSTANTS
from npu_model.program import (
    Broadcast,
    DataType,
    ElementwiseKind,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    Rounding,
    Scale,
    Strides,
    Tiles,
)
from npu_model.shapes import Shape3D

_INT32 = DataType(32, signed=True)
_BITS = 31
_SUM_BITS = 31


def _rounds_to_nearest(scale: int, shift: int, count: int, largest: int) -> bool:
    """Whether a factor rounds every sum of at most ``largest`` in size to the nearest multiple of ``count``, halves away from zero.

    The factor must lie above 1 / ``count``, so that halves round away from zero. It must lie so little above that no other sum reaches a
    half: a sum's quotient is at least 1 / (2 * ``count``) away from the next half.
    """
    above = scale * count - (1 << shift)
    return above > 0 and 2 * largest * above < 1 << shift


def narrow_factor(operation: KernelOperation) -> Scale | None:
    """A factor of at most 31 bits for the sums of an average's windows, with the same averages; None if there is none.

    The sums must fit into 32 bits, and the average must round naturally.
    """
    own, count, dtype = operation.ofm_scale, operation.kernel.elements, operation.ifm.dtype
    zero = operation.ifm.zero_point
    largest = count * max(dtype.maximum - zero, zero - dtype.minimum)
    if operation.rounding is not Rounding.NATURAL or largest >> _SUM_BITS:
        return None
    scale, shift, is_same = own.scale, own.shift, True
    while scale >> _BITS and shift:
        is_same = is_same and scale % 2 == 0
        scale, shift = (scale + 1) // 2, shift - 1
    if scale >> _BITS:
        return None
    both = all(_rounds_to_nearest(*factor, count, largest) for factor in ((own.scale, own.shift), (scale, shift)))
    return Scale(scale, shift) if is_same or both else None


def averages(sums: FeatureMap, operation: KernelOperation, maker: KernelMaker) -> KernelOperation | None:
    """The averages of a pool from the 32-bit sums of its windows; None if no factor gives the same averages.

    Vela 5.2 makes the means of 16 bits from their sums in the same way, with the factor in memory.
    """
    factor, one, size = narrow_factor(operation), Shape3D(1, 1, 1), _INT32.bytes
    if factor is None:
        return None
    start = maker.append(factor.scale.to_bytes(size, "little")).start
    second = FeatureMap(CONSTANTS, one, _INT32, Layout.NHWC, Tiles.single(one, start), Strides(size, size, size), 0)
    return maker.in_any_block(
        KernelOperation(
            OperationKind.ELEMENTWISE,
            sums,
            operation.ofm,
            operation.block,
            operation.shram,
            operation.activation,
            elementwise=ElementwiseKind.MUL,
            ifm2=second,
            broadcast=Broadcast(depth=True),
            rounding=operation.rounding,
            global_scale=True,
            ofm_scale=Scale(1, factor.shift),
        )
    )
