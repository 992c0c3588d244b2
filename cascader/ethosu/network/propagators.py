"""A network's graph with a Propagator for each input: from a stripe of a tensor as it is stored to those of what it is made from.

To the operators it adds slices, concatenations and strided writes, and the channels behind a brick.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod

from cascader.ethosu.network.network import ARENA, CpuPart, EthosuPart, Network, arena_reads, arena_writes
from cascader.ethosu.network.operators import UPSCALE, operand_propagator, scale_propagator, weight_propagator
from cascader.ethosu.network.tensor_forms import TensorForm, tensor_form
from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import Rational
from npu_model.program import FeatureMap, Kernel, KernelOperation, Padding, Upscale
from npu_model.weight_stream.weights import RECORD_BYTES, weight_shape


def work_of(operation: KernelOperation, elements: int) -> Rational:
    """Work of each of ``elements`` of an OFM: its share of the multiply-accumulates. Without any, each element of the result counts as one.

    The channels that fill up the last brick cost nothing, so their share is spread over all.
    """
    return Fraction(operation.macs or operation.ofm.shape.elements, elements)


def _align(operation: KernelOperation, form: TensorForm) -> tuple[int, ...]:
    """Where the kernel can be cut: not inside a brick, and behind the upscaler, if at all, at both copies of an element.

    The upscaler begins with the first copy, and pads after upscaling, which only whole maps can do.
    """
    align = list(form.align)
    if operation.upscale is not Upscale.NONE:
        simple = operation.upscale is Upscale.NEAREST and operation.kernel == Kernel() and operation.padding == Padding()
        height, width = (UPSCALE, UPSCALE) if simple else (operation.ofm.shape.height, operation.ofm.shape.width)
        align[1], align[form.columns_axis] = height, width
    return tuple(align)


class _Builder:
    """Makes the striped parts of a network, and their tensors."""

    def __init__(self, network: Network) -> None:
        self.graph = network.graph
        self.constants: list[Tensor] = []
        maps: dict[str, list[FeatureMap]] = {tensor.name: [] for tensor in self.graph.tensors}
        # Writers come first: of several forms with equally many views theirs is taken.
        for accesses in (arena_writes, arena_reads):
            for payload in network.kernels.values():
                for name, feature_map in accesses(payload):
                    maps[name].append(feature_map)
        self.forms = {tensor.name: tensor_form(tensor.size, maps[tensor.name]) for tensor in self.graph.tensors}

    def tensor(self, tensor: Tensor) -> Tensor:
        """The tensor in its form, as bytes if it has none."""
        form = self.forms[tensor.name]
        if form is None:
            return Tensor.dense(tensor.name, tensor.kind, (tensor.size,))
        return Tensor.dense(tensor.name, tensor.kind, form.shape, form.element_size)

    def shape(self, name: str) -> tuple[int, ...]:
        """Axes of an arena tensor."""
        return self.tensor(self.graph.tensor(name)).shape

    def constant(self, name: str, shape: tuple[int, ...], propagator: Propagator, element_size: int = 1) -> Operand:
        """A constant operand of one part."""
        self.constants.append(Tensor.dense(name, TensorKind.CONSTANT, shape, element_size))
        return Operand(name, propagator)

    def whole_part(self, part: Part, output: str, inputs: tuple[str, ...], work: Rational, name: str) -> Part:
        """A part that cannot be cut: any of its output needs all of its inputs."""
        shape = self.shape(output)
        kinds = {tensor.name: tensor.kind for tensor in self.graph.tensors}
        read = dict.fromkeys(operand for operand in inputs if kinds[operand] is not TensorKind.CONSTANT)
        operands = tuple(Operand(operand, Propagator.opaque(self.shape(operand), len(shape))) for operand in read)
        return Part.striped(name, operands, output, shape, work=work, align=shape, payload=part.payload)

    def kernel_part(self, part: Part, payload: EthosuPart) -> Part:
        """One kernel; cut along the axes of its OFM if that is a view of the tensor."""
        operation, form = payload.operation, self.forms[payload.ofm]
        view = form.view(operation.ofm) if form is not None else None
        operands = list(arena_reads(payload))
        if form is None or view is None:
            work = work_of(operation, prod(self.shape(payload.ofm)))
            return self.whole_part(part, payload.ofm, tuple(name for name, _ in operands), work, part.name)
        own, shape = form.to_nhwc, form.piece(operation.ofm.shape)
        inputs = [self._operand(operation, name, feature_map, own) for name, feature_map in operands]
        inputs += self._constants(part.name, payload, own)
        return Part.striped(
            name=part.name,
            operands=tuple(inputs),
            output=payload.ofm,
            shape=shape,
            offset=form.offset(view),
            step=form.step(view),
            work=work_of(operation, prod(shape)),
            align=_align(operation, form),
            payload=part.payload,
        )

    def _operand(self, operation: KernelOperation, name: str, feature_map: FeatureMap, own: Propagator) -> Operand:
        """An operand in the arena; all of it if the kernel sees the tensor in another shape than others do."""
        form = self.forms[name]
        view = form.view(feature_map) if form is not None else None
        if form is None or view is None:
            return Operand(name, Propagator.opaque(self.shape(name), own.outputs))
        needs = operand_propagator(operation, feature_map)
        return Operand(name, form.reading(view) @ needs @ own, form.bounds(view, feature_map))

    def _constants(self, name: str, payload: EthosuPart, own: Propagator) -> Iterator[Operand]:
        """Weights, scales, table and constant feature maps of a kernel."""
        operation = payload.operation
        if operation.weights:
            yield self.constant(f"{name}/weights", weight_shape(operation), weight_propagator(operation) @ own)
        if operation.scales:
            yield self.constant(f"{name}/scales", (operation.ofm.shape.depth, RECORD_BYTES), scale_propagator() @ own)
        if payload.lut is not None:
            size = (payload.lut.source.length,)
            yield self.constant(f"{name}/table", size, Propagator.opaque(size, own.outputs))
        for label, feature_map in (("ifm", operation.ifm), ("ifm2", operation.ifm2)):
            if feature_map is not None and feature_map.region != ARENA:
                needs = operand_propagator(operation, feature_map)
                shape = feature_map.shape
                axes = (1, shape.height, shape.width, shape.depth)
                yield self.constant(f"{name}/{label}", axes, needs @ own, feature_map.dtype.bytes)


def affine_graph(network: Network) -> CascaderGraph:
    """The network's parts with a Propagator per operand, tensors NHWC or NHCWB16 as they are stored.

    A part's axes are those of its output tensor. A feature map that sees its tensor in another shape (behind a reshape)
    is needed whole. Weights, scales and tables are constants of their part. A CPU operator is a part per output.
    """
    builder = _Builder(network)
    parts: list[Part] = []
    for part in network.graph.parts:
        if isinstance(part.payload, EthosuPart):
            parts.append(builder.kernel_part(part, part.payload))
        elif isinstance(part.payload, CpuPart):
            for index, output in enumerate(dict.fromkeys(part.outputs)):
                name = part.name if index == 0 else f"{part.name}/{index}"
                parts.append(builder.whole_part(part, output, part.inputs, 0, name))
    arena = [builder.tensor(tensor) for tensor in network.graph.tensors if tensor.kind is not TensorKind.CONSTANT]
    return CascaderGraph(tuple(parts), (*arena, *builder.constants))
