"""A network written as Tensor Expressions with the NPU's exact numerics, for the front end, the propagators and the plans of RFC 0037.

Every kernel is a chain of ``te.compute``: reads (upscaling, padding with the zero point), one accumulation, and the rescaling
with zero point, clamp and look-up table. Tensors are NHWC as the operators see them, whatever their layout in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from kernel_te import KERNEL, KernelWriter, Shape, shape_of
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.network.network import ARENA, CpuPart, EthosuPart, Network, Port
from cascader.graph.cascader_graph import TensorKind
from cascader.tensorir.kernel_constants import lut_values, take
from cascader.tensorir.stages import Stage
from cascader.tensorir.te_frontend import Match, WantedTensor
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import BRICK, ByteRange, FeatureMap, Layout, OperationKind


class NetworkTe(Struct, frozen=True, eq=False):
    """A network's Tensor Expressions: placeholders and outputs by the network's names, and values of the constant placeholders.

    ``parts`` are the names and payloads of the network's parts by the name of the tensor expression that makes their output.
    """

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    constants: Mapping[Any, NDArray[Any]]
    parts: Mapping[str, tuple[str, EthosuPart]]

    def match(self, wanted: WantedTensor) -> Match | None:
        """A matcher for the front end: the stages of one kernel are one Part, with the kernel as its payload."""
        label = str(wanted.stage.attrs.get(KERNEL, ""))
        if label not in self.parts:
            return None
        _, part = self.parts[label]
        work = part.operation.macs // part.operation.ofm.shape.elements
        return Match("kernel", tuple(_stages(wanted, wanted.stage, label)), work, payload=part)


def _stages(wanted: WantedTensor, stage: Stage, label: str) -> list[Stage]:
    """The stages of a kernel up to this one, in order: a chain, as each reads at most one other."""
    for name in wanted.operands(stage):
        producer = wanted.graph.producers().get(name)
        if producer is not None and str(producer.attrs.get(KERNEL, "")) == label:
            return [*_stages(wanted, producer, label), stage]
    return [stage]


class _NetworkWriter:
    """A network's tensor expressions in the making."""

    def __init__(self, network: Network, accelerator: Accelerator) -> None:
        self.network, self.accelerator = network, accelerator
        self.kernel = KernelWriter(network.constants, accelerator)
        self.tensors: dict[str, Any] = {}
        self.pieces: dict[str, list[tuple[int, Any]]] = {}
        self.parts: dict[str, tuple[str, EthosuPart]] = {}
        self.layouts: dict[str, FeatureMap] = {}

    def read(self, tensor: str, feature_map: FeatureMap, name: str, what: str) -> Any:
        """The NHWC tensor that a kernel sees; one that others see in another shape is reshaped, if it lies as dense elements."""
        if feature_map.region != ARENA:
            return self._constant_map(feature_map, name, what)
        made, wanted = self.tensors[tensor], shape_of(feature_map)
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
        return self.kernel.stage(wanted, lambda *at: made(*_unflattened(_flat(at, wanted), own)), name=f"{name}_reshaped")

    def _constant_map(self, feature_map: FeatureMap, name: str, what: str) -> Any:
        if feature_map.layout is not Layout.NHWC:
            raise InputError(f"{what} has a constant operand in bricks: dense ones are written as Tensor Expressions.")
        base, size = feature_map.tiles.bases[0], feature_map.dtype.bytes
        content = take(self.network.constants, ByteRange(feature_map.region, base, feature_map.byte_ranges()[-1].end), what)
        strides = (feature_map.strides.y, feature_map.strides.x, size)
        view = np.ndarray(shape_of(feature_map)[1:], str(feature_map.dtype), content, 0, strides)
        return self.kernel.constant(name, np.ascontiguousarray(view)[np.newaxis])

    def part(self, name: str, part: EthosuPart, label: str) -> None:
        """One kernel, as a chain of stages of which the last is called ``label``."""
        self.kernel.label = label
        operation, what = part.operation, f"Part {name!r} ({part.operation.mnemonic})"
        ifm = self.read(part.ifm, operation.ifm, f"{label}_ifm", what)
        values = lut_values(part, self.network.constants, self.accelerator, what)
        lut = None if values is None else self.kernel.constant(f"{label}_lut", values)
        if operation.kind is not OperationKind.ELEMENTWISE:
            made = self.kernel.windowed(operation, ifm, lut, what)
        else:
            second = operation.ifm2
            ifm2 = self.read(part.ifm2, second, f"{label}_ifm2", what) if second is not None and part.ifm2 is not None else None
            made = self.kernel.elementwise(operation, ifm, ifm2, lut, what)
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
                value = self.kernel.writer.tvm.tirx.if_then_else(c < end, made[n, y, x, c - start], value)
            return value

        _, height, width = shapes.pop()
        return self.kernel.te.compute((1, height, width, ends[-1]), joined, name=f"{label}_joined")


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
        placeholder = made.kernel.te.placeholder(shape_of(feature_map), str(feature_map.dtype), name=f"input{len(inputs)}")
        made.tensors[port.tensor], made.layouts[port.tensor], inputs[port.name] = placeholder, feature_map, placeholder
    for tensor in network.graph.select(TensorKind.VARIABLE):
        raise InputError(f"Tensor {tensor.name!r} is a variable: networks without state are written as Tensor Expressions.")
    for index, part in enumerate(network.graph.parts):
        if isinstance(part.payload, CpuPart):
            raise InputError(f"Part {part.name!r} runs {part.payload.code} on the CPU: kernels alone are written as Tensor Expressions.")
        if isinstance(part.payload, EthosuPart):
            made.part(part.name, part.payload, f"part{index}")
    outputs = {port.name: _ported(port, made.tensors) for port in network.outputs}
    return NetworkTe(inputs, outputs, made.kernel.constants, made.parts)
