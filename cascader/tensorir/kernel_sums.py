"""Sums of windows: what a convolution, a depthwise or a pooling kernel accumulates for an element, and what becomes of the total.

Loops are made of this, and so are the Tensor Expressions that tests write. The rules of poolings are those that
:mod:`sim.functional.pooling` has found to be the NPU's, written anew.
"""

from __future__ import annotations

from typing import Any

from cascader.tensorir.kernel_constants import FilterValues, filter_values
from cascader.tensorir.kernel_window import axes, inside_count
from cascader.tensorir.numerics import Value, magnitude, rescaled, rescaled_by_table
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import Kernel, KernelOperation, OperationKind, Padding, PoolKind, Rounding, Scale, Upscale
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class WindowSum:
    """The accumulation of a kernel with a window; ``filters`` are the constants of a convolution or depthwise one, None for a pooling.

    ``what`` is the kernel's name in a sentence.
    """

    operation: KernelOperation
    filters: FilterValues | None
    what: str

    @property
    def deep(self) -> bool:
        """Whether all channels of the IFM are summed up, not the element's own one alone."""
        return self.operation.kind is OperationKind.CONV_2D or self.operation.pool is PoolKind.REDUCE_SUM

    @property
    def is_maximum(self) -> bool:
        """Whether the total is the largest element of the window."""
        return self.operation.pool is PoolKind.MAX

    @property
    def accumulator(self) -> str:
        """The type that holds every total."""
        return "int64" if self.filters is None else self.filters.accumulator

    @property
    def start(self) -> int:
        """The accumulator before the first tap: below every element for a maximum, so that padding never wins, as in the executor."""
        dtype = self.operation.ifm.dtype
        return dtype.minimum - (1 << dtype.bits) if self.is_maximum else 0

    def term(self, writer: Writer, value: Any, weight: Any) -> Any:
        """The term that one element of the IFM, of the accumulator's type, adds; ``weight`` is None for a pooling."""
        return value if weight is None else value * writer.cast(self.accumulator, weight)

    def result(self, writer: Writer, total: Any, at: tuple[Any, Any], table: Any, channel: Any) -> Any:
        """The result, before zero point and clamp, of a ``total`` at row and column ``at``; ``table`` has a convolution's channels."""
        operation, scale = self.operation, self.operation.ofm_scale
        if self.filters is not None:
            return rescaled_by_table(writer, writer.cast("int64", total), table, channel)
        if self.is_maximum:
            return total
        if operation.pool is PoolKind.AVERAGE and operation.padding != Padding():
            return _mean(writer, operation, total, at)
        if operation.pool is PoolKind.REDUCE_SUM and not operation.global_scale:
            return total
        terms = operation.kernel.elements * (operation.ifm.shape.depth if self.deep else 1)
        bounded = Value(total, magnitude(operation.ifm) * terms)
        return rescaled(writer, bounded, scale.scale, scale.shift, operation.rounding, self.what).expression


def window_sum(operation: KernelOperation, constants: bytes, accelerator: Accelerator, what: str) -> WindowSum:
    """The accumulation of an operation that is not elementwise; InputError if it cannot be expressed."""
    if operation.kind is not OperationKind.POOL:
        return WindowSum(operation, filter_values(operation, constants, accelerator, what), what)
    _check_pooling(operation, what)
    return WindowSum(operation, None, what)


def _check_pooling(operation: KernelOperation, what: str) -> None:
    """Refuse what no source says the meaning of, as the functional executor does."""
    padded = operation.padding != Padding()
    if operation.pool is PoolKind.REDUCE_SUM:
        if operation.ifm.dtype.bits == 8 or operation.kernel != Kernel() or padded or operation.ofm.shape.depth != 1:
            raise InputError(
                f"{what} sums {operation.ifm.dtype} channels in a window of {operation.kernel.elements}: 16 or 32 bits and 1 are known."
            )
        return
    if operation.pool is PoolKind.MAX:
        if operation.upscale is Upscale.ZEROS:
            raise InputError(f"{what} takes the maximum behind the upscaler with zeros: nearest neighbours are expressed in TensorIR.")
        return
    if not padded and not operation.global_scale:
        raise InputError(f"{what} averages without padding and without a global scale: what divides the sum is not public.")
    if padded and ((operation.global_scale and operation.ofm_scale != Scale(1, 0)) or operation.rounding is Rounding.TRUNCATE):
        raise InputError(f"{what} averages with padding and {operation.ofm_scale}: only Scale(1, 0) is known.")
    if padded and (operation.upscale is Upscale.ZEROS or (operation.kernel.dilation_y, operation.kernel.dilation_x) != (1, 1)):
        raise InputError(f"{what} averages with padding dilated or between zeros: plain windows are expressed in TensorIR.")


def _mean(writer: Writer, operation: KernelOperation, total: Any, at: tuple[Any, Any]) -> Any:
    """The mean of the elements inside the IFM, halves away from zero: TFLite's rule, which the NPU follows."""
    taps = [inside_count(writer, axis, output) for axis, output in zip(axes(operation), at, strict=True)]
    number = writer.bind("number", writer.cast("int64", taps[0] * taps[1]))
    value = writer.bind("total", total)
    negative = value < 0
    size = writer.bind("size", writer.select(negative, value * writer.constant(-1), value))
    quotient = writer.bind("quotient", writer.tvm.tirx.truncdiv(size * writer.constant(2) + number, number * writer.constant(2)))
    return writer.select(negative, quotient * writer.constant(-1), quotient)
