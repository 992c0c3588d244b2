"""One kernel as a chain of Tensor Expressions: reads, one accumulation, and the rescaling, with the NPU's exact numerics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from cascader.tensorir.expressions import Expressions
from cascader.tensorir.kernel_elementwise import check as check_elementwise
from cascader.tensorir.kernel_elementwise import combined
from cascader.tensorir.kernel_windowed import WindowAxis, axes, window_sum
from cascader.tensorir.numerics import LaneValue, OutputUnit, magnitude
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import FeatureMap, KernelOperation, Padding, Upscale

Shape = tuple[int, int, int, int]

KERNEL = "npu_kernel"
"""Attribute of every stage: the name of its kernel's last one."""


def shape_of(feature_map: FeatureMap) -> Shape:
    """The NHWC shape of a feature map."""
    shape = feature_map.shape
    return 1, shape.height, shape.width, shape.depth


class KernelWriter:
    """The stages of kernels, one kernel after the other; ``label`` is the name of the present one's last stage.

    ``constants`` are the values of the placeholders that it has made.
    """

    def __init__(self, stored: bytes, accelerator: Accelerator) -> None:
        """``stored`` are the network's constants."""
        self._stored, self._accelerator = stored, accelerator
        self.writer = Expressions()
        self.te = self.writer.tvm.te
        self.constants: dict[Any, NDArray[Any]] = {}
        self.label = ""

    def constant(self, name: str, values: NDArray[Any]) -> Any:
        """A placeholder of known values."""
        made = self.te.placeholder(values.shape, str(values.dtype), name=name)
        self.constants[made] = values
        return made

    def stage(self, shape: Shape, element: Callable[..., Any], name: str) -> Any:
        """One stage of the present kernel."""
        return self.te.compute(shape, element, name=name, attrs={KERNEL: self.label})

    def _window(self, operation: KernelOperation, ifm: Any) -> tuple[Any, WindowAxis, WindowAxis]:
        """The IFM upscaled and padded with its zero point, so that every tap lies inside, with the axes of the window."""
        row, column = axes(operation)
        _, _, _, depth = shape_of(operation.ifm)
        tirx, factor = self.writer.tvm.tirx, 1 if operation.upscale is Upscale.NONE else 2
        zero = self.writer.constant(operation.ifm.zero_point, str(operation.ifm.dtype))
        if operation.upscale is not Upscale.NONE:
            small = ifm

            def copied(n: Any, y: Any, x: Any, c: Any) -> Any:
                value = small[n, y // factor, x // factor, c]
                even = tirx.all(y % factor == 0, x % factor == 0)
                return value if operation.upscale is Upscale.NEAREST else tirx.if_then_else(even, value, zero)

            _, height, width, _ = shape_of(operation.ifm)
            ifm = self.stage((1, height * factor, width * factor, depth), copied, name=f"{self.label}_upscaled")
        if operation.padding == Padding():
            return ifm, row, column
        source = ifm

        def padded(n: Any, y: Any, x: Any, c: Any) -> Any:
            inner = [y >= row.before, y < row.before + row.limit, x >= column.before, x < column.before + column.limit]
            return tirx.if_then_else(tirx.all(*inner), source[n, y - row.before, x - column.before, c], zero)

        covered = [(axis.outputs - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1 for axis in (row, column)]
        return self.stage((1, covered[0], covered[1], depth), padded, name=f"{self.label}_padded"), row, column

    def windowed(self, operation: KernelOperation, ifm: Any, lut: Any, what: str) -> Any:
        """The OFM of a convolution, a depthwise operation or a pooling; InputError if it is of a kind that is not expressed."""
        unit = OutputUnit(self.writer, operation, what)
        sums = window_sum(unit, self._stored, self._accelerator)
        if sums.is_maximum and operation.padding != Padding():
            raise InputError(f"{what} takes the maximum of padded windows: windows without padding are written as Tensor Expressions.")
        weights = table = None
        if sums.weights is not None and sums.table is not None:
            weights = self.constant(f"{self.label}_weights", sums.weights)
            table = self.constant(f"{self.label}_table", sums.table)
        source, row, column = self._window(operation, ifm)
        ky, kx = self.te.reduce_axis((0, row.taps), "ky"), self.te.reduce_axis((0, column.taps), "kx")
        channels = self.te.reduce_axis((0, operation.ifm.shape.depth), "i")
        reduce, dtype = self.te.max if sums.is_maximum else self.te.sum, sums.accumulator

        def total(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = source[n, y * row.stride + ky * row.dilation, x * column.stride + kx * column.dilation, channels if sums.deep else c]
            own = value.astype(dtype) - self.writer.constant(operation.ifm.zero_point, dtype)
            weight = None if weights is None else weights[c, ky, kx, channels if sums.deep else 0]
            return reduce(sums.term(own, weight), axis=[ky, kx, channels] if sums.deep else [ky, kx])

        totals = self.stage(shape_of(operation.ofm), total, name=f"{self.label}_sums")

        def result(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = sums.result(totals[n, y, x, c], (y, x), table, c)
            return self.writer.closed(unit.finished(value, lut))

        return self.stage(shape_of(operation.ofm), result, name=self.label)

    def elementwise(self, operation: KernelOperation, ifm: Any, ifm2: Any, lut: Any, what: str) -> Any:
        """The OFM of an elementwise operation; InputError if it is of a kind that is not expressed."""
        check_elementwise(operation, what)
        unit = OutputUnit(self.writer, operation, what)

        def element(tensor: Any, feature_map: FeatureMap, at: tuple[Any, ...]) -> LaneValue:
            extents = zip(at, shape_of(feature_map), shape_of(operation.ofm), strict=True)
            index = [i if own == extent else 0 for i, own, extent in extents]
            value = tensor[tuple(index)].astype("int64")
            return LaneValue(value - self.writer.constant(feature_map.zero_point), magnitude(feature_map))

        def result(*at: Any) -> Any:
            second = None if ifm2 is None or operation.ifm2 is None else element(ifm2, operation.ifm2, at)
            value = combined(unit, element(ifm, operation.ifm, at), second)
            return self.writer.closed(unit.finished(value.expression, lut))

        return self.stage(shape_of(operation.ofm), result, name=self.label)
