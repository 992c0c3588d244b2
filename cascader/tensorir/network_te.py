"""A network written as Tensor Expressions with the NPU's exact numerics, for the front end, the propagators and the plans of RFC 0037.

Every kernel is a chain of ``te.compute``: reads (upscaling, padding with the zero point), one accumulation, and the rescaling
with zero point, clamp and look-up table. Tensors are NHWC as the operators see them, whatever their layout in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import ARENA, CpuPart, EthosuPart, Network, Port
from cascader.graph.cascader_graph import TensorKind
from cascader.tensorir.kernel_constants import filter_values, lut_values, take
from cascader.tensorir.kernel_elementwise import check as check_elementwise
from cascader.tensorir.kernel_elementwise import combined
from cascader.tensorir.kernel_pooling import averaged
from cascader.tensorir.kernel_pooling import check as check_pooling
from cascader.tensorir.kernel_window import Axis, axes
from cascader.tensorir.matchers import Match, Wanted
from cascader.tensorir.numerics import Value, finished, rescaled, rescaled_by_table
from cascader.tensorir.stages import Stage
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import BRICK, ByteRange, FeatureMap, KernelOperation, Layout, OperationKind, Padding, PoolKind, Upscale
from npu_model.values import dataclass

Shape = tuple[int, int, int, int]

_KERNEL = "npu_kernel"
"""Attribute of every stage: the name of its kernel's last one."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkTe:
    """A network's Tensor Expressions: placeholders and outputs by the network's names, and values of the constant placeholders.

    ``parts`` are the names and payloads of the network's parts by the name of the tensor expression that makes their output.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    constants: Mapping[Any, NDArray[Any]]
    parts: Mapping[str, tuple[str, EthosuPart]]

    def match(self, wanted: Wanted) -> Match | None:
        """A matcher for the front end's registry: the stages of one kernel are one Part, with the kernel as its payload."""
        label = str(wanted.stage.attrs.get(_KERNEL, ""))
        if label not in self.parts:
            return None
        _, part = self.parts[label]
        work = part.operation.macs // part.operation.ofm.shape.elements
        return Match("kernel", tuple(_stages(wanted, wanted.stage, label)), work, payload=part)


def _stages(wanted: Wanted, stage: Stage, label: str) -> list[Stage]:
    """The stages of a kernel up to this one, in order: a chain, as each reads at most one other."""
    for name in wanted.operands(stage):
        producer = wanted.graph.producers().get(name)
        if producer is not None and str(producer.attrs.get(_KERNEL, "")) == label:
            return [*_stages(wanted, producer, label), stage]
    return [stage]


class _Expressions(Writer):
    """Writes expressions alone: values that get a name are let in around the expression that uses them."""

    def __init__(self) -> None:
        super().__init__()
        self._bound: list[tuple[Any, Any]] = []

    def bind(self, name: str, value: Any, dtype: str = "int64") -> Any:
        """A variable, to be used in the expression that :meth:`closed` ends; an index stays an expression, for it is analysed."""
        if dtype == "int32" or name == "index":
            return value
        variable = self.tvm.tirx.Var(name, dtype)
        self._bound.append((variable, value))
        return variable

    def closed(self, expression: Any) -> Any:
        """The expression with all the values that were bound for it, each computed once."""
        while self._bound:
            variable, value = self._bound.pop()
            expression = self.tvm.tirx.Let(variable, value, expression)
        return expression

    def cast(self, dtype: str, value: Any) -> Any:
        """``value``, which may be an element of a tensor expression, as ``dtype``."""
        return value.astype(dtype)


def _shape(feature_map: FeatureMap) -> Shape:
    shape = feature_map.shape
    return 1, shape.height, shape.width, shape.depth


def _bound(feature_map: FeatureMap) -> int:
    dtype, zero = feature_map.dtype, feature_map.zero_point
    return max(abs(dtype.minimum - zero), abs(dtype.maximum - zero))


class _NetworkWriter:
    """A network's tensor expressions in the making."""

    def __init__(self, network: Network, accelerator: Accelerator) -> None:
        self.network, self.accelerator = network, accelerator
        self.writer = _Expressions()
        self.te = self.writer.tvm.te
        self.tensors: dict[str, Any] = {}
        self.constants: dict[Any, NDArray[Any]] = {}
        self.pieces: dict[str, list[tuple[int, Any]]] = {}
        self.parts: dict[str, tuple[str, EthosuPart]] = {}
        self.label = ""
        self.layouts: dict[str, FeatureMap] = {}

    def constant(self, name: str, values: NDArray[Any]) -> Any:
        """A placeholder of known values."""
        made = self.te.placeholder(values.shape, str(values.dtype), name=name)
        self.constants[made] = values
        return made

    def stage(self, shape: Shape, element: Callable[..., Any], name: str) -> Any:
        """One stage of the present kernel."""
        return self.te.compute(shape, element, name=name, attrs={_KERNEL: self.label})

    def read(self, tensor: str, feature_map: FeatureMap, name: str, what: str) -> Any:
        """The NHWC tensor that a kernel sees; one that others see in another shape is reshaped, if it lies as dense elements."""
        if feature_map.region != ARENA:
            return self._constant_map(feature_map, name, what)
        made, wanted = self.tensors[tensor], _shape(feature_map)
        own = tuple(int(extent) for extent in made.shape)
        from_start = feature_map.tiles.bases[0] == 0 and feature_map.strides == self.layouts[tensor].strides
        # A strided window may leave out the last rows and columns.
        if from_start and own[3] == wanted[3] and own[1] >= wanted[1] and own[2] >= wanted[2]:
            return made
        if feature_map.tiles.bases[0] or prod(own) != prod(wanted):
            raise InputError(f"{what} reads a piece of tensor {tensor!r}: whole tensors are written as Tensor Expressions.")
        flat = (Layout.NHWC, self.layouts[tensor].layout) == (feature_map.layout, Layout.NHWC) or max(own[1:3]) == max(wanted[1:3]) == 1
        if not flat:
            raise InputError(
                f"{what} reads tensor {tensor!r} as {wanted} where it is made as {own} in bricks: the same shape is expressed."
            )
        return self.stage(wanted, lambda *at: made(*_unflattened(_flat(at, wanted), own)), name=f"{name}_reshaped")

    def _constant_map(self, feature_map: FeatureMap, name: str, what: str) -> Any:
        if feature_map.layout is not Layout.NHWC:
            raise InputError(f"{what} has a constant operand in bricks: dense ones are written as Tensor Expressions.")
        base, size = feature_map.tiles.bases[0], feature_map.dtype.bytes
        content = take(self.network.constants, ByteRange(feature_map.region, base, feature_map.byte_ranges()[-1].end), what)
        strides = (feature_map.strides.y, feature_map.strides.x, size)
        dtype = f"{'i' if feature_map.dtype.signed else 'u'}{size}"
        view = np.ndarray(_shape(feature_map)[1:], dtype, content, 0, strides)
        return self.constant(name, np.ascontiguousarray(view)[np.newaxis])

    def part(self, name: str, part: EthosuPart, label: str) -> None:
        """One kernel, as a chain of stages of which the last is called ``label``."""
        self.label = label
        operation, what = part.operation, f"Part {name!r} ({part.operation.mnemonic})"
        ifm = self.read(part.ifm, operation.ifm, f"{label}_ifm", what)
        values = lut_values(part, self.network.constants, self.accelerator, what)
        lut = None if values is None else self.constant(f"{label}_lut", values)
        if operation.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE):
            made = self._convolution(operation, ifm, lut, label, what)
        elif operation.kind is OperationKind.POOL:
            made = self._pooling(operation, ifm, lut, label, what)
        else:
            second = operation.ifm2
            ifm2 = self.read(part.ifm2, second, f"{label}_ifm2", what) if second is not None and part.ifm2 is not None else None
            made = self._elementwise(operation, ifm, ifm2, lut, label, what)
        self.parts[label] = (name, part)
        self.pieces.setdefault(part.ofm, []).append((_first_channel(operation.ofm, what), made))
        if len(self.pieces[part.ofm]) == len(self.network.graph.producers(part.ofm)):
            self.tensors[part.ofm], self.layouts[part.ofm] = self._joined(part.ofm, label, what), operation.ofm

    def _joined(self, tensor: str, label: str, what: str) -> Any:
        """A tensor of which each kernel has written some channels, as one more stage if there are several."""
        pieces = sorted(self.pieces[tensor], key=lambda piece: piece[0])
        starts, depths = [first for first, _ in pieces], [int(made.shape[3]) for _, made in pieces]
        ends = [first + depth for first, depth in zip(starts, depths, strict=True)]
        shapes = {tuple(int(extent) for extent in made.shape[:3]) for _, made in pieces}
        if starts != [0, *ends[:-1]] or len(shapes) > 1:
            raise InputError(f"{what} writes a piece of tensor {tensor!r}: pieces that are whole rows of channels are expressed.")
        if len(pieces) == 1:
            return pieces[0][1]

        def joined(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = pieces[-1][1][n, y, x, c - starts[-1]]
            for (start, made), end in zip(reversed(pieces[:-1]), reversed(ends[:-1]), strict=True):
                value = self.writer.tvm.tirx.if_then_else(c < end, made[n, y, x, c - start], value)
            return value

        _, height, width = shapes.pop()
        return self.te.compute((1, height, width, ends[-1]), joined, name=f"{label}_joined")

    def _window(self, operation: KernelOperation, ifm: Any, label: str) -> tuple[Any, Axis, Axis]:
        """The IFM upscaled and padded with its zero point, so that every tap lies inside, with the axes of the window."""
        row, column = axes(operation)
        _, _, _, depth = _shape(operation.ifm)
        tirx, factor = self.writer.tvm.tirx, 1 if operation.upscale is Upscale.NONE else 2
        zero = self.writer.constant(operation.ifm.zero_point, str(operation.ifm.dtype))
        if operation.upscale is not Upscale.NONE:
            small = ifm

            def copied(n: Any, y: Any, x: Any, c: Any) -> Any:
                value = small[n, y // factor, x // factor, c]
                even = tirx.all(y % factor == 0, x % factor == 0)
                return value if operation.upscale is Upscale.NEAREST else tirx.if_then_else(even, value, zero)

            _, height, width, _ = _shape(operation.ifm)
            ifm = self.stage((1, height * factor, width * factor, depth), copied, name=f"{label}_upscaled")
        if operation.padding == Padding():
            return ifm, row, column
        source = ifm

        def padded(n: Any, y: Any, x: Any, c: Any) -> Any:
            inner = [y >= row.before, y < row.before + row.limit, x >= column.before, x < column.before + column.limit]
            return tirx.if_then_else(tirx.all(*inner), source[n, y - row.before, x - column.before, c], zero)

        covered = [(axis.outputs - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1 for axis in (row, column)]
        return self.stage((1, covered[0], covered[1], depth), padded, name=f"{label}_padded"), row, column

    def _taps(self, row: Axis, column: Axis) -> tuple[Any, Any]:
        return self.te.reduce_axis((0, row.taps), "ky"), self.te.reduce_axis((0, column.taps), "kx")

    def _convolution(self, operation: KernelOperation, ifm: Any, lut: Any, label: str, what: str) -> Any:
        found = filter_values(operation, self.network.constants, self.accelerator, what)
        weights, table = self.constant(f"{label}_weights", found.weights), self.constant(f"{label}_table", found.table)
        source, row, column = self._window(operation, ifm, label)
        ky, kx = self._taps(row, column)
        deep = operation.kind is OperationKind.CONV_2D
        channels = self.te.reduce_axis((0, operation.ifm.shape.depth), "i")
        dtype, zero = found.accumulator, operation.ifm.zero_point

        def total(n: Any, y: Any, x: Any, c: Any) -> Any:
            at = (y * row.stride + ky * row.dilation, x * column.stride + kx * column.dilation)
            value = source[n, at[0], at[1], channels if deep else c].astype(dtype) - self.writer.constant(zero, dtype)
            weight = weights[c, ky, kx, channels if deep else 0].astype(dtype)
            return self.te.sum(value * weight, axis=[ky, kx, channels] if deep else [ky, kx])

        sums = self.stage(_shape(operation.ofm), total, name=f"{label}_sums")

        def result(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = rescaled_by_table(self.writer, sums[n, y, x, c].astype("int64"), table, c)
            return self.writer.closed(finished(self.writer, operation, value, lut, what))

        return self.stage(_shape(operation.ofm), result, name=label)

    def _pooling(self, operation: KernelOperation, ifm: Any, lut: Any, label: str, what: str) -> Any:
        check_pooling(operation, what)
        if operation.pool is PoolKind.MAX and operation.padding != Padding():
            raise InputError(f"{what} takes the maximum of padded windows: windows without padding are written as Tensor Expressions.")
        source, row, column = self._window(operation, ifm, label)
        ky, kx = self._taps(row, column)
        channels = self.te.reduce_axis((0, operation.ifm.shape.depth), "i")
        deep = operation.pool is PoolKind.REDUCE_SUM
        reduce = self.te.max if operation.pool is PoolKind.MAX else self.te.sum

        def total(n: Any, y: Any, x: Any, c: Any) -> Any:
            value = source[n, y * row.stride + ky * row.dilation, x * column.stride + kx * column.dilation, channels if deep else c]
            own = value.astype("int64") - self.writer.constant(operation.ifm.zero_point)
            return reduce(own, axis=[ky, kx, channels] if deep else [ky, kx])

        sums = self.stage(_shape(operation.ofm), total, name=f"{label}_sums")
        bound = _bound(operation.ifm) * operation.kernel.elements * (operation.ifm.shape.depth if deep else 1)

        def result(n: Any, y: Any, x: Any, c: Any) -> Any:
            value, scale = self.writer.bind("total", sums[n, y, x, c]), operation.ofm_scale
            if operation.pool is PoolKind.AVERAGE:
                value = averaged(self.writer, operation, value, ((row, y), (column, x)), bound, what)
            elif deep and operation.global_scale:
                value = rescaled(self.writer, Value(value, bound), scale.scale, scale.shift, operation.rounding, what).expression
            return self.writer.closed(finished(self.writer, operation, value, lut, what))

        return self.stage(_shape(operation.ofm), result, name=label)

    def _elementwise(self, operation: KernelOperation, ifm: Any, ifm2: Any, lut: Any, label: str, what: str) -> Any:
        check_elementwise(operation, what)

        def element(tensor: Any, feature_map: FeatureMap, at: tuple[Any, ...]) -> Value:
            extents = zip(at, _shape(feature_map), _shape(operation.ofm), strict=True)
            index = [i if own == extent else 0 for i, own, extent in extents]
            value = tensor[tuple(index)].astype("int64")
            return Value(value - self.writer.constant(feature_map.zero_point), _bound(feature_map))

        def result(*at: Any) -> Any:
            second = None
            if operation.is_binary:
                scalar = (operation.scalar or 0) - operation.scalar_zero_point
                second = Value(self.writer.constant(scalar), abs(scalar))
            if ifm2 is not None and operation.ifm2 is not None:
                second = element(ifm2, operation.ifm2, at)
            value = combined(self.writer, operation, element(ifm, operation.ifm, at), second, what)
            return self.writer.closed(finished(self.writer, operation, value.expression, lut, what))

        return self.stage(_shape(operation.ofm), result, name=label)


def _first_channel(feature_map: FeatureMap, what: str) -> int:
    """The channel of its tensor that a feature map begins with; InputError if it does not begin at the first pixel."""
    base, size = feature_map.tiles.bases[0], feature_map.dtype.bytes
    if feature_map.layout is Layout.NHCWB16 and base:
        bricks, rest = divmod(base, feature_map.strides.c)
        channel, rest = bricks * BRICK + rest // size, rest // size // BRICK
    else:
        channel, rest = base // size, base // feature_map.strides.x
    if rest or feature_map.tiles.height0 < feature_map.shape.height:
        raise InputError(f"{what} writes its tensor from byte {base} on: pieces that are whole rows of channels are expressed.")
    return channel


def _flat(at: tuple[Any, ...], shape: Shape) -> Any:
    index: Any = 0
    for position, extent in zip(at, shape, strict=True):
        index = index * extent + position
    return index


def _unflattened(index: Any, shape: tuple[int, ...]) -> list[Any]:
    found: list[Any] = []
    for extent in reversed(shape):
        found.insert(0, index % extent)
        index = index // extent
    return found


def _first_use(network: Network, tensor: str, what: str) -> FeatureMap:
    """The feature map by which the first kernel reads a tensor."""
    for part in network.graph.consumers(tensor):
        if isinstance(part.payload, EthosuPart):
            operation = part.payload.operation
            return operation.ifm if part.payload.ifm == tensor or operation.ifm2 is None else operation.ifm2
    raise InputError(f"{what} is read by no kernel: remove it.")


def _ported(port: Port, made: Mapping[str, Any]) -> Any:
    if port.offset or port.size != prod(int(extent) for extent in made[port.tensor].shape) * port.dtype.bytes:
        raise InputError(f"Output {port.name!r} is a piece of tensor {port.tensor!r}: whole tensors are written as Tensor Expressions.")
    return made[port.tensor]


def network_te(network: Network, accelerator: Accelerator) -> NetworkTe:
    """The Tensor Expressions of a network's kernels, stage ``part3`` being the output of its fourth part.

    InputError, with the part's name, for what is not expressed: CPU operators, and kernels that read or write pieces of tensors
    (other than concatenations of channels) or take the maximum of padded windows. A schedule's proof, which needs no Tensor Expressions,
    has none of these limits but the first.
    """
    made = _NetworkWriter(network, accelerator)
    inputs: dict[str, Any] = {}
    for port in network.inputs:
        feature_map = _first_use(network, port.tensor, f"Input {port.name!r}")
        placeholder = made.te.placeholder(_shape(feature_map), str(feature_map.dtype), name=f"input{len(inputs)}")
        made.tensors[port.tensor], made.layouts[port.tensor], inputs[port.name] = placeholder, feature_map, placeholder
    for tensor in network.graph.select(TensorKind.VARIABLE):
        raise InputError(f"Tensor {tensor.name!r} is a variable: networks without state are written as Tensor Expressions.")
    for index, part in enumerate(network.graph.parts):
        if isinstance(part.payload, CpuPart):
            raise InputError(f"Part {part.name!r} runs {part.payload.code} on the CPU: kernels alone are written as Tensor Expressions.")
        if isinstance(part.payload, EthosuPart):
            made.part(part.name, part.payload, f"part{index}")
    outputs = {port.name: _ported(port, made.tensors) for port in network.outputs}
    return NetworkTe(inputs, outputs, made.constants, made.parts)
