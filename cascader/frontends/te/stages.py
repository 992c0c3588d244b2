"""Stages of the operators: reads, upscaling and padding, one accumulation, and the output unit, as Tensor Expressions in 64 bits.

The last stage carries the operator's name and attributes; the other stages prepare its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cascader.frontends.te.attributes import CONV2D, Attributes
from cascader.frontends.te.moves import reshape
from cascader.frontends.te.registers import RegisterOperand
from cascader.tensorir.compat import shape_of
from cascader.tensorir.expressions import Expressions
from cascader.tensorir.kernel_elementwise import combined
from cascader.tensorir.kernel_windowed import WindowAxis, WindowSum, axes
from cascader.tensorir.numerics import LaneValue, OutputUnit, magnitude
from npu_model.errors import InputError
from npu_model.program import KernelOperation, Padding, PoolKind, Rounding, Upscale
from npu_model.weight_stream.weights import RECORD_BYTES

PART = "ethosu_part"
"""Attribute of the inner stages of an operator: what each does for the operator."""

_BIAS_BYTES, _SCALE_BYTES, _SHIFT_MASK = 5, 4, 63
_TABLE = 256


def operand(tensor: Any) -> RegisterOperand:
    """Shape and type of a tensor."""
    return RegisterOperand(shape_of(tensor), str(tensor.dtype))


class _Unit(Expressions):
    """The last expressions of an operator: the stage that makes its values, then the output unit."""

    def __init__(self, made: Attributes, operation: KernelOperation, lut: Any, name: str) -> None:
        super().__init__()
        self.made, self.operation, self.lut, self.name = made, operation, lut, name
        self.unit = OutputUnit(self, operation, made.op)
        ofm = operation.ofm
        self.shape = (1, ofm.shape.height, ofm.shape.width, ofm.shape.depth)
        given = None if lut is None else operand(lut)
        if (made.activation == "LUT") != (given is not None):
            raise made.refuse("activation", "the table is missing; give lut" if given is None else "a table goes with LUT; leave lut out")
        if given is not None and (given.shape != (_TABLE,) or given.dtype != str(ofm.dtype) or ofm.dtype.bits != 8):
            raise InputError(f"{made.op} has lut of {given.dtype} {given.shape} for an OFM of {ofm.dtype}: 8 bits and {_TABLE} entries.")

    def inner(self, shape: tuple[int, ...], element: Callable[..., Any], what: str) -> Any:
        """A stage before the last one."""
        return self.tvm.te.compute(shape, element, name=f"{self.name}_{what}", attrs={PART: what})

    def last(self, value: Callable[..., Any]) -> Any:
        """The stage that makes the OFM from values in 64 bits, by zero point and clamp. It carries the attributes."""
        table = None if self.lut is None else _Table(self.lut)

        def result(*at: Any) -> Any:
            return self.closed(self.unit.finished(value(*at), table))

        return self.tvm.te.compute(self.shape, result, name=self.name, attrs=self.made.plain)


class _Table:
    """A table of results, as 64-bit numbers for the output unit."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Any:
        return self._tensor[index].astype("int64")


def _window(unit: _Unit, ifm: Any, outside: int) -> tuple[Any, WindowAxis, WindowAxis]:
    """The upscaled IFM with a border of ``outside``, so that every tap lies inside, and the axes of the window."""
    operation, tirx = unit.operation, unit.tvm.tirx
    row, column = axes(operation)
    dtype = str(operation.ifm.dtype)
    source = ifm
    if operation.upscale is not Upscale.NONE:
        zero = unit.constant(operation.ifm.zero_point, dtype)

        def copied(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = ifm[n, y // 2, x // 2, c]
            even = tirx.all(y % 2 == 0, x % 2 == 0)
            return value if operation.upscale is Upscale.NEAREST else tirx.if_then_else(even, value, zero)

        n, height, width, depth = shape_of(ifm)
        source = unit.inner((n, 2 * height, 2 * width, depth), copied, "upscale")
    if operation.padding == Padding():
        return source, row, column

    def padded(n: Any, y: Any, x: Any, c: Any) -> Any:
        inner = [y >= row.before, y < row.before + row.limit, x >= column.before, x < column.before + column.limit]
        return tirx.if_then_else(tirx.all(*inner), source[n, y - row.before, x - column.before, c], unit.constant(outside, dtype))

    covered = [(axis.outputs - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1 for axis in (row, column)]
    return unit.inner((1, *covered, shape_of(ifm)[3]), padded, "pad"), row, column


def filtered(made: Attributes, operation: KernelOperation, operands: tuple[Any, Any, Any, Any], name: str) -> Any:
    """A convolution or depthwise convolution of IFM, weight, scale_bias and table (None: no table)."""
    ifm, weight, scale_bias, lut = operands
    channels, bits = operation.ofm.shape.depth, operation.ifm.dtype.bits
    if operand(scale_bias) != RegisterOperand((channels, RECORD_BYTES), "uint8"):
        form = f"{scale_bias.dtype} {shape_of(scale_bias)}"
        raise InputError(f"{made.op} has scale_bias of {form}: uint8 {(channels, RECORD_BYTES)} is needed; make it with scale_records.")
    unit = _Unit(made, operation, lut, name)
    te, total = unit.tvm.te, "int32" if bits == 8 else "int64"
    source, row, column = _window(unit, ifm, operation.ifm.zero_point)
    deep = made.op == CONV2D
    ky, kx = te.reduce_axis((0, row.taps), "ky"), te.reduce_axis((0, column.taps), "kx")
    loops = [ky, kx, te.reduce_axis((0, operation.ifm.shape.depth), "i")] if deep else [ky, kx]

    def summed(n: Any, y: Any, x: Any, c: Any) -> Any:
        at = y * row.stride + ky * row.dilation, x * column.stride + kx * column.dilation
        value = source[n, at[0], at[1], loops[2] if deep else c].astype(total) - unit.constant(operation.ifm.zero_point, total)
        factor = weight[c, ky, kx, loops[2] if deep else 0].astype(total) - unit.constant(made.weight_zero_point, total)
        return te.sum(value * factor, axis=loops)

    sums = unit.inner(unit.shape, summed, "sums")
    return unit.last(lambda n, y, x, c: _recorded(unit, sums[n, y, x, c], scale_bias, c))


def _recorded(unit: _Unit, total: Any, records: Any, channel: Any) -> Any:
    """A sum after the bias, scale and shift of its channel's record."""
    number = [records[channel, byte].astype("int64") for byte in range(RECORD_BYTES)]

    def joined(first: int, count: int) -> Any:
        found = number[first]
        for place in range(1, count):
            found = found + number[first + place] * unit.constant(1 << 8 * place)
        return found

    bits = 8 * _BIAS_BYTES
    bias = unit.bind("bias", joined(0, _BIAS_BYTES))
    sign = unit.select(bias >= unit.constant(1 << bits - 1), unit.constant(1 << bits), unit.constant(0))
    value = unit.bind("biased", total.astype("int64") + (bias - sign))
    shift = unit.tvm.tirx.bitwise_and(number[-1], unit.constant(_SHIFT_MASK))
    one, zero = unit.constant(1), unit.constant(0)
    if unit.operation.rounding is Rounding.TRUNCATE:
        term = unit.select(value < zero, (one << shift) - one, zero)
    else:
        term = unit.bind("half", unit.select(shift > zero, one << unit.tvm.tirx.max(shift - one, zero), zero))
        if unit.operation.rounding is Rounding.DOUBLE:
            nudge = unit.select(shift > unit.constant(31), unit.constant(1 << 30), zero)
            term = term + unit.select(value < zero, zero - nudge, nudge)
    return unit.bind("scaled", (value * joined(_BIAS_BYTES, _SCALE_BYTES) + term) >> shift)


def pooled(made: Attributes, operation: KernelOperation, ifm: Any, lut: Any, name: str) -> Any:
    """A pooling or an identity."""
    unit = _Unit(made, operation, lut, name)
    sums = WindowSum(unit.unit)
    ifm = _image(ifm)
    outside = operation.ifm.dtype.minimum if sums.is_maximum else operation.ifm.zero_point
    source, row, column = _window(unit, ifm, outside)
    te = unit.tvm.te
    ky, kx = te.reduce_axis((0, row.taps), "ky"), te.reduce_axis((0, column.taps), "kx")
    deep = operation.pool is PoolKind.REDUCE_SUM
    loops = [ky, kx, te.reduce_axis((0, operation.ifm.shape.depth), "i")] if deep else [ky, kx]
    zero = unit.constant(operation.ifm.zero_point)

    def summed(n: Any, y: Any, x: Any, c: Any) -> Any:
        at = y * row.stride + ky * row.dilation, x * column.stride + kx * column.dilation
        value = source[n, at[0], at[1], loops[2] if deep else c].astype("int64") - zero
        return (te.max if sums.is_maximum else te.sum)(value, axis=loops)

    totals = unit.inner(unit.shape, summed, "sums")
    return unit.last(lambda n, y, x, c: sums.result(totals[n, y, x, c], (y, x), None, c))


def _image(ifm: Any) -> Any:
    """An operand with four axes; an operand with fewer is reshaped."""
    shape = shape_of(ifm)
    return ifm if len(shape) == 4 else reshape(ifm, (1,) * (4 - len(shape)) + shape, name=f"{ifm.op.name}_image")


def pointwise(made: Attributes, operation: KernelOperation, ifm: Any, ifm2: Any, lut: Any, name: str) -> Any:
    """An elementwise operation on one operand or two."""
    unit = _Unit(made, operation, lut, name)
    shape = operation.ofm.shape

    def element(tensor: Any, zero_point: int, bound: int, at: tuple[Any, ...]) -> LaneValue:
        extents = (1, shape.height, shape.width, shape.depth)
        index = [i if own == extent else 0 for i, own, extent in zip(at, shape_of(tensor), extents, strict=True)]
        return LaneValue(tensor[tuple(index)].astype("int64") - unit.constant(zero_point), bound)

    bound = magnitude(operation.ifm)

    def read(tensor: Any, what: str) -> Any:
        """An operand in a stage of its own, like TVM's ``ethosu_read``, so that the matcher can tell the two operands apart."""
        source = _image(tensor)
        return unit.inner(shape_of(source), source, what)

    first, second = read(ifm, "ifm"), None if ifm2 is None else read(ifm2, "ifm2")

    def value(*at: Any) -> Any:
        a = element(first, operation.ifm.zero_point, bound, at)
        b = None if second is None or operation.ifm2 is None else element(second, made.ifm2_zero_point, magnitude(operation.ifm2), at)
        return combined(unit.unit, a, b).expression

    return unit.last(value)
