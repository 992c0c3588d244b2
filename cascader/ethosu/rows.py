"""From a Network of Ethos-U parts to the RowGraph that the generic cascader works on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cascader.ethosu.in_place import overwritable_operands
from cascader.ethosu.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.ethosu.overwriting import overwriting_parts
from cascader.graph import CascaderGraph, Part, Tensor, TensorKind
from cascader.row_graph import RowGraph, RowPart, RowPropagator, RowTensor
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Upscale


def _accesses(part: EthosuPart) -> list[tuple[str, FeatureMap]]:
    """The part's tensors in the arena with the feature maps that address them."""
    operation = part.operation
    pairs = [(part.ifm, operation.ifm), (part.ofm, operation.ofm)]
    if part.ifm2 is not None and operation.ifm2 is not None:
        pairs.append((part.ifm2, operation.ifm2))
    return [(name, feature_map) for name, feature_map in pairs if feature_map.region == ARENA]


def _is_single_tile(feature_map: FeatureMap) -> bool:
    return feature_map.tiles.height0 >= feature_map.shape.height and feature_map.tiles.width0 >= feature_map.shape.width


def _row_geometry(tensor: Tensor, feature_maps: list[FeatureMap]) -> tuple[int, int]:
    """Rows and bytes per row, (1, size) unless every access steps through the same rows from the tensor's first one."""
    whole = (1, tensor.size)
    if not feature_maps:
        return whole
    stride = feature_maps[0].strides.y
    if stride < 1 or tensor.size % stride:
        return whole
    rows = tensor.size // stride
    for feature_map in feature_maps:
        first_row = feature_map.tiles.bases[0] < stride
        # A single row's stride is arbitrary, and such a tensor is one row anyhow.
        if feature_map.strides.y != stride or not first_row or not _is_single_tile(feature_map) or feature_map.shape.height > rows:
            return whole
    return rows, stride


def _propagator(operation: KernelOperation, operand: FeatureMap, tensor: RowTensor) -> RowPropagator:
    if tensor.rows == 1:
        return RowPropagator(rows=1, whole=True)
    if operation.kind is OperationKind.ELEMENTWISE:
        broadcast = operand.shape.height < operation.ofm.shape.height
        return RowPropagator(rows=operand.shape.height, whole=broadcast)
    kernel = operation.kernel
    return RowPropagator(
        rows=operand.shape.height,
        stride=kernel.stride_y,
        taps=kernel.dilated_height,
        pad=operation.padding.top,
        upscale=1 if operation.upscale is Upscale.NONE else 2,
    )


def _align(operation: KernelOperation) -> int | None:
    """Rows that stripes begin at multiples of; None if the operation cannot be cut.

    The upscaler begins with the first copy of an IFM row, so a stripe must begin there too.
    """
    if operation.upscale is Upscale.NONE:
        return 1
    simple = operation.kernel.stride_y == 1 and operation.kernel.dilated_height == 1 and operation.padding.top == 0
    return 2 if simple and operation.upscale is Upscale.NEAREST else None


def _dies_here(graph: CascaderGraph, name: str, part: Part, output: RowTensor, operand: RowTensor) -> bool:
    """Whether ``part`` alone reads the tensor and alone writes its output, of the same rows; a variable's old bytes stay."""
    alone = graph.consumers(name) == (part,) and graph.producers(output.name) == (part,)
    alike = (operand.rows, operand.row_bytes) == (output.rows, output.row_bytes)
    return alone and alike and operand.kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE) and output.kind is not TensorKind.VARIABLE


@dataclass(frozen=True, slots=True)
class _Order:
    """What must hold of the order of a network's parts: (predecessors that end before, runs in one piece, segment) by name."""

    after: dict[str, list[int]]
    single: frozenset[str]
    segment: dict[str, int]

    def of(self, row_part: RowPart) -> RowPart:
        """The part with its predecessors and segment."""
        return replace(row_part, after=tuple(sorted(self.after.get(row_part.name, ()))), segment=self.segment[row_part.name])


def _order(network: Network) -> _Order:
    after: dict[str, list[int]] = {}
    pairs = tuple(overwriting_parts(network))
    for first, second, _ in pairs:
        if first != second and network.graph.index(first) not in after.setdefault(second, []):
            after[second].append(network.graph.index(first))
    segment = {name: index for index, segment in enumerate(network.segments) for name in segment.parts}
    return _Order(after, frozenset(first for first, second, _ in pairs if first == second), segment)


def _kernel_part(
    graph: CascaderGraph, part: Part, payload: EthosuPart, index: dict[str, int], tensors: tuple[RowTensor, ...], *, single: bool
) -> RowPart:
    operation = payload.operation
    output = tensors[index[payload.ofm]]
    align = _align(operation)
    atomic = single or output.rows == 1 or align is None or operation.ofm.shape.height == 1
    operands = [(name, feature_map) for name, feature_map in _accesses(payload) if feature_map is not operation.ofm]
    inputs = tuple(
        (index[name], RowPropagator(tensors[index[name]].rows, whole=True) if atomic else _propagator(operation, fm, tensors[index[name]]))
        for name, fm in operands
    )
    in_place = next((index[n] for n in overwritable_operands(part) if _dies_here(graph, n, part, output, tensors[index[n]])), None)
    rows = 1 if atomic else operation.ofm.shape.height
    return RowPart(part.name, inputs, (index[payload.ofm],), rows, align or 1, atomic, in_place)


def _opaque_part(part: Part, index: dict[str, int], kinds: dict[str, TensorKind]) -> RowPart:
    inputs = tuple((index[name], RowPropagator(rows=1, whole=True)) for name in part.inputs if kinds[name] is not TensorKind.CONSTANT)
    return RowPart(part.name, inputs, tuple(index[name] for name in part.outputs), 1, 1, atomic=True)


def row_graph(network: Network) -> RowGraph:
    """The rows of every tensor of the arena and the parts that make them; what cannot be cut is one row."""
    graph = network.graph
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    maps: dict[str, list[FeatureMap]] = {tensor.name: [] for tensor in graph.tensors}
    opaque: set[str] = set()
    for part in graph.parts:
        payload = ethosu_part(part)
        if payload is None:
            opaque.update(part.inputs + part.outputs)
            continue
        for name, feature_map in _accesses(payload):
            maps[name].append(feature_map)
    arena = [tensor for tensor in graph.tensors if tensor.kind is not TensorKind.CONSTANT]
    tensors = tuple(RowTensor(t.name, t.kind, *((1, t.size) if t.name in opaque else _row_geometry(t, maps[t.name]))) for t in arena)
    index = {tensor.name: i for i, tensor in enumerate(tensors)}
    order = _order(network)
    parts = []
    for part in graph.parts:
        payload = ethosu_part(part)
        single = part.name in order.single
        made = _kernel_part(graph, part, payload, index, tensors, single=single) if payload else _opaque_part(part, index, kinds)
        parts.append(order.of(made))
    return RowGraph(tuple(parts), tensors)
