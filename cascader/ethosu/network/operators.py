"""Propagators of the Ethos-U's operators, in the axes of their feature maps: batch, height, width, channels.

The matrices are those of TVM RFC 0037's Parts, plus the upscaler and sums over channels, which the RFC leaves out. All questions about the
elements that a kernel reads, for stripes of any axes and for rows, project these.
"""

from __future__ import annotations

from cascader.graph.propagator import InputAxis, Propagator, upscaled, window
from npu_model.program import FeatureMap, KernelOperation, OperationKind, PoolKind, Upscale
from npu_model.weight_stream.weights import RECORD_BYTES, weight_shape

NHWC_AXES = 4
"""Axes of the space that operators are described in: batch, height, width, channels."""

UPSCALE = 2
"""Factor of the NPU's upscaler (IFM_UPSCALE)."""


def elementwise_propagator(operand: FeatureMap, ofm: FeatureMap) -> Propagator:
    """Propagator of an operand of an elementwise operator: element by element, and a whole axis where the operand is repeated."""
    pairs = zip(
        (operand.shape.height, operand.shape.width, operand.shape.depth), (ofm.shape.height, ofm.shape.width, ofm.shape.depth), strict=True
    )
    axes = (InputAxis(1 + axis) if own == out else InputAxis(None, 0, own) for axis, (own, out) in enumerate(pairs))
    return Propagator.of_axes((InputAxis(0), *axes), NHWC_AXES)


def kernel_propagator(operation: KernelOperation) -> Propagator:
    """Propagator of the IFM of a convolution, depthwise convolution or pooling, NHWC to NHWC.

    Rows and columns are windows, after the upscaler if it is used. Convolutions and sums over channels need every channel, other operators
    the same one. An element also counts if the NPU reads it only for the zeros that the upscaler puts after it.
    """
    kernel, padding = operation.kernel, operation.padding
    rows = window(1, taps=kernel.height, stride=kernel.stride_y, dilation=kernel.dilation_y, pad=padding.top)
    columns = window(2, taps=kernel.width, stride=kernel.stride_x, dilation=kernel.dilation_x, pad=padding.left)
    if operation.upscale is not Upscale.NONE:
        rows, columns = upscaled(rows, UPSCALE), upscaled(columns, UPSCALE)
    depth = operation.ifm.shape.depth
    mixes = operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM or depth != operation.ofm.shape.depth
    return Propagator.of_axes((InputAxis(0), rows, columns, InputAxis(None, 0, depth) if mixes else InputAxis(3)), NHWC_AXES)


def operand_propagator(operation: KernelOperation, operand: FeatureMap) -> Propagator:
    """Propagator of an operand (IFM or IFM2) of any operator, NHWC to NHWC."""
    if operation.kind is OperationKind.ELEMENTWISE:
        return elementwise_propagator(operand, operation.ofm)
    return kernel_propagator(operation)


def weight_propagator(operation: KernelOperation) -> Propagator:
    """All weights of the output channels."""
    _, height, width, inputs = weight_shape(operation)
    return Propagator.of_axes((InputAxis(3), InputAxis(None, 0, height), InputAxis(None, 0, width), InputAxis(None, 0, inputs)), NHWC_AXES)


def scale_propagator() -> Propagator:
    """The scale records of the output channels, as (channels, bytes of a record)."""
    return Propagator.of_axes((InputAxis(3), InputAxis(None, 0, RECORD_BYTES)), NHWC_AXES)
