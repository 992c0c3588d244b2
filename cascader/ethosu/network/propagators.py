"""A network's graph with a Propagator for each input: from a stripe of a stored tensor to the stripes of its operands.

It adds the kernels' constants and work to the views of the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from cascader.ethosu.network.network import CONSTANTS, CpuPart, EthosuPart, Network
from cascader.ethosu.network.operators import NHWC_AXES, operand_propagator, scale_propagator, weight_propagator
from cascader.ethosu.network.views import part_views
from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.graph.stored_axes import StoredTensors
from npu_model.weight_stream.weights import RECORD_BYTES, weight_shape


def _constants(name: str, payload: EthosuPart) -> Iterator[tuple[Tensor, Propagator]]:
    """Weights, scales, table and constant feature maps of a kernel, each with the part that some elements of the OFM need."""
    operation = payload.operation

    def constant(label: str, shape: tuple[int, ...], element_size: int = 1) -> Tensor:
        return Tensor.dense(f"{name}/{label}", TensorKind.CONSTANT, shape, element_size)

    if operation.weights:
        yield constant("weights", weight_shape(operation)), weight_propagator(operation)
    if operation.scales:
        yield constant("scales", (operation.ofm.shape.depth, RECORD_BYTES)), scale_propagator()
    if payload.lut is not None:
        size = (payload.lut.source.length,)
        yield constant("table", size), Propagator.opaque(size, NHWC_AXES)
    for label, feature_map in (("ifm", operation.ifm), ("ifm2", operation.ifm2)):
        if feature_map is not None and feature_map.region == CONSTANTS:
            shape = (1, feature_map.shape.height, feature_map.shape.width, feature_map.shape.depth)
            yield constant(label, shape, feature_map.dtype.bytes), operand_propagator(operation, feature_map)


def stored_tensors(network: Network) -> StoredTensors:
    """The network's tensors in the axes that its kernels step through."""
    return StoredTensors(network.graph, (part_views(kernel) for kernel in network.kernels.values()))


def affine_graph(network: Network) -> CascaderGraph:
    """The network's parts with a Propagator per operand, tensors NHWC or NHCWB16 as they are stored.

    A part's axes are those of its output tensor. A feature map that sees its tensor in another shape (after a reshape) is needed as a
    whole. Weights, scales and tables are constants of their part. A CPU operator is a part per output.
    """
    views = {name: part_views(kernel) for name, kernel in network.kernels.items()}
    stored = stored_tensors(network)
    parts: list[Part] = []
    constants: list[Tensor] = []
    for part in network.graph.parts:
        if isinstance(part.payload, EthosuPart):
            own = list(_constants(part.name, part.payload))
            # Without multiply-accumulates, each element of the result counts as one.
            work = part.payload.operation.macs or part.payload.operation.ofm.shape.elements
            made = stored.part(part, views[part.name], [Operand(tensor.name, needs) for tensor, needs in own], work)
            constants += [tensor for tensor, _ in own if tensor.name in made.inputs]
            parts.append(made)
        elif isinstance(part.payload, CpuPart):
            for index, output in enumerate(dict.fromkeys(part.outputs)):
                parts.append(stored.whole_part(part, output, part.name if index == 0 else f"{part.name}/{index}"))
    return CascaderGraph(tuple(parts), (*stored.tensors.values(), *constants))
