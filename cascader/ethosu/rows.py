"""From a Network of Ethos-U parts to the RowGraph that the generic cascader works on.

A row of the RowGraph is a step along the axis of the parts that use the tensor: a row of its feature maps, or a column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cascader.ethosu.axis import Axis, Window
from cascader.ethosu.in_place import overwritable_operands
from cascader.ethosu.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.ethosu.overwriting import overwriting_parts
from cascader.graph import Part, Tensor, TensorKind
from cascader.residual import is_last_reader
from cascader.row_graph import RowGraph, RowPart, RowPropagator, RowTensor
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Upscale


def _accesses(part: EthosuPart) -> list[tuple[str, FeatureMap]]:
    """The part's tensors in the arena with the feature maps that address them."""
    operation = part.operation
    pairs = [(part.ifm, operation.ifm), (part.ofm, operation.ofm)]
    if part.ifm2 is not None and operation.ifm2 is not None:
        pairs.append((part.ifm2, operation.ifm2))
    return [(name, feature_map) for name, feature_map in pairs if feature_map.region == ARENA]


def _row_geometry(tensor: Tensor, accesses: list[tuple[FeatureMap, Axis]]) -> tuple[int, int]:
    """Rows and bytes per row, (1, size) unless every access steps through the same rows from the tensor's first one."""
    whole = (1, tensor.size)
    if not accesses:
        return whole
    first, along = accesses[0]
    step = along.step(first)
    if step < 1 or tensor.size % step:
        return whole
    rows = tensor.size // step
    for feature_map, axis in accesses:
        # A single row's stride is arbitrary, and such a tensor is one row anyhow.
        alike = axis.step(feature_map) == step and axis.is_outermost(feature_map) and feature_map.tiles.bases[0] < step
        if not alike or not feature_map.is_single_tile or axis.extent(feature_map.shape) > rows:
            return whole
    return rows, step


def _propagator(part: EthosuPart, operand: FeatureMap, tensor: RowTensor) -> RowPropagator:
    operation, rows = part.operation, part.axis.extent(operand.shape)
    if tensor.rows == 1:
        return RowPropagator(rows=1, whole=True)
    if operation.kind is OperationKind.ELEMENTWISE:
        return RowPropagator(rows=rows, whole=rows < part.axis.extent(operation.ofm.shape))
    window = part.axis.window(operation)
    return RowPropagator(
        rows=rows,
        stride=window.stride,
        taps=window.taps,
        pad=window.pad,
        upscale=1 if operation.upscale is Upscale.NONE else 2,
    )


def _align(operation: KernelOperation, axis: Axis) -> int | None:
    """Rows that stripes begin at multiples of; None if the operation cannot be cut.

    The upscaler begins with the first copy of an IFM row, so a stripe must begin there too.
    """
    if operation.upscale is Upscale.NONE:
        return 1
    return 2 if axis.window(operation) == Window(stride=1, taps=1, pad=0) and operation.upscale is Upscale.NEAREST else None


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


def _kernel_part(part: Part, payload: EthosuPart, index: dict[str, int], tensors: tuple[RowTensor, ...], *, single: bool) -> RowPart:
    operation = payload.operation
    output, rows = tensors[index[payload.ofm]], payload.axis.extent(operation.ofm.shape)
    align = _align(operation, payload.axis)
    atomic = single or output.rows == 1 or align is None or rows == 1
    operands = [(name, feature_map) for name, feature_map in _accesses(payload) if feature_map is not operation.ofm]
    inputs = tuple(
        (index[name], RowPropagator(tensors[index[name]].rows, whole=True) if atomic else _propagator(payload, fm, tensors[index[name]]))
        for name, fm in operands
    )
    return RowPart(part.name, inputs, (index[payload.ofm],), 1 if atomic else rows, align or 1, atomic)


def _may_be_overwritten(graph: RowGraph, part: int, operand: int) -> bool:
    """Whether the part alone makes its output, of rows like the operand's, and is the last to read these; a variable's old bytes stay."""
    (output,) = graph.parts[part].outputs
    new, old = graph.tensors[output], graph.tensors[operand]
    alike = (old.rows, old.row_bytes) == (new.rows, new.row_bytes) and graph.producers(output) == (part,)
    kinds = old.kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE) and new.kind is not TensorKind.VARIABLE
    return alike and kinds and is_last_reader(graph, part, operand)


def _stored_in_place(network: Network, graph: RowGraph, index: dict[str, int]) -> RowGraph:
    """The graph with the operands that results are stored over.

    Of two it is the one that more parts read: that is there before, so that the result need not find room beside it. The other one's
    rows are made when the sum asks for them.
    """
    parts = []
    for at, (part, facts) in enumerate(zip(network.graph.parts, graph.parts, strict=True)):
        fitting = [index[name] for name in overwritable_operands(part) if _may_be_overwritten(graph, at, index[name])]
        chosen = max(fitting, key=lambda operand: len(graph.consumers(operand)), default=None)
        parts.append(replace(facts, in_place=chosen))
    return RowGraph(tuple(parts), graph.tensors)


def _opaque_part(part: Part, index: dict[str, int], kinds: dict[str, TensorKind]) -> RowPart:
    inputs = tuple((index[name], RowPropagator(rows=1, whole=True)) for name in part.inputs if kinds[name] is not TensorKind.CONSTANT)
    return RowPart(part.name, inputs, tuple(index[name] for name in part.outputs), 1, 1, atomic=True)


def row_graph(network: Network) -> RowGraph:
    """The rows of every tensor of the arena and the parts that make them; what cannot be cut is one row."""
    graph = network.graph
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    maps: dict[str, list[tuple[FeatureMap, Axis]]] = {tensor.name: [] for tensor in graph.tensors}
    opaque: set[str] = set()
    for part in graph.parts:
        payload = ethosu_part(part)
        if payload is None:
            opaque.update(part.inputs + part.outputs)
            continue
        for name, feature_map in _accesses(payload):
            maps[name].append((feature_map, payload.axis))
    arena = [tensor for tensor in graph.tensors if tensor.kind is not TensorKind.CONSTANT]
    tensors = tuple(RowTensor(t.name, t.kind, *((1, t.size) if t.name in opaque else _row_geometry(t, maps[t.name]))) for t in arena)
    index = {tensor.name: i for i, tensor in enumerate(tensors)}
    order = _order(network)
    parts = []
    for part in graph.parts:
        payload = ethosu_part(part)
        single = part.name in order.single
        made = _kernel_part(part, payload, index, tensors, single=single) if payload else _opaque_part(part, index, kinds)
        parts.append(order.of(made))
    return _stored_in_place(network, RowGraph(tuple(parts), tensors), index)
