"""From a Network of Ethos-U parts to the RowGraph that the generic cascader works on.

A row of the RowGraph is a step along the axis of the parts that use the tensor: a row of its feature maps, or a column.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from cascader.ethosu.network.geometry import Geometry
from cascader.ethosu.network.network import EthosuPart, Network, arena_reads, ethosu_part
from cascader.ethosu.network.operators import operand_propagator
from cascader.ethosu.network.overwriting import overwritable_operands, overwriting_parts
from cascader.graph.cascader_graph import Part, TensorKind
from cascader.graph.in_place import is_last_reader
from cascader.graph.row_graph import RowGraph, RowPart, RowPropagator, RowTensor
from npu_model.program import LONGEST_STRIDE, Upscale


def _borders(part: EthosuPart) -> tuple[int, int] | None:
    """Multiples of rows, and what to add, at which stripes begin; None if the kernel runs whole.

    The upscaler begins with the first copy of an IFM row, so the first row that a stripe reads must be one, unless it is padding.
    """
    operation, window = part.operation, part.axis.window(part.operation)
    if part.axis.extent(operation.ofm.shape) == 1 or not all(feature_map.is_single_tile for _, feature_map in part.maps):
        return None
    if operation.upscale is Upscale.NONE:
        return 1, 0
    return (2, window.pad % 2) if window.stride == 1 else None


def _kernel_part(part: Part, payload: EthosuPart, index: dict[str, int], geometry: Geometry, *, single: bool) -> RowPart:
    operation = payload.operation
    borders = None if single else _borders(payload)
    align, phase = borders or (1, 0)
    inputs = []
    for name, feature_map in arena_reads(payload):
        needs, axis = operand_propagator(operation, feature_map, fetched=True), payload.axis.number
        at, extent = geometry.row_map(name, feature_map, payload.axis), payload.axis.extent(feature_map.shape)
        propagator = RowPropagator.projected(needs, axis, axis, extent, at)
        inputs.append((index[name], propagator if borders else replace(propagator, whole=True)))
    written = geometry.row_map(payload.ofm, operation.ofm, payload.axis)
    steps_far = borders is not None and payload.axis.window(operation).stride > LONGEST_STRIDE
    rows = payload.axis.extent(operation.ofm.shape)
    if borders is None:
        rows, written = 1, geometry.whole_map(payload.ofm, operation.ofm)
    return RowPart(
        name=part.name,
        inputs=tuple(inputs),
        outputs=(index[payload.ofm],),
        rows=rows,
        align=align,
        atomic=borders is None,
        phase=phase,
        most_rows=int(steps_far),
        maps=() if written is None else (written,),
    )


def _may_be_overwritten(graph: RowGraph, part: int, operand: int) -> bool:
    """Whether the part alone makes its output, of rows like the operand's, and is the last to read these; a variable's old bytes stay."""
    (output,) = graph.parts[part].outputs
    new, old = graph.tensors[output], graph.tensors[operand]
    alike = (old.rows, old.row_bytes) == (new.rows, new.row_bytes) and graph.writers()[output] == [(part, 0)]
    kinds = old.kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE) and new.kind is not TensorKind.VARIABLE
    return alike and kinds and is_last_reader(graph, part, operand)


def _stored_in_place(network: Network, graph: RowGraph, index: dict[str, int]) -> RowGraph:
    """The graph with the operands that results are stored over.

    Of two it is the one that more parts read: that is there before, so that the result need not find room beside it. The other one's
    rows are made when the sum asks for them.
    """
    parts, readers = [], graph.readers()
    for at, (part, facts) in enumerate(zip(network.graph.parts, graph.parts, strict=True)):
        fitting = [index[name] for name in overwritable_operands(part) if _may_be_overwritten(graph, at, index[name])]
        chosen = max(fitting, key=lambda operand: len(readers[operand]), default=None)
        parts.append(replace(facts, in_place=chosen))
    return RowGraph(tuple(parts), graph.tensors)


def _opaque_part(part: Part, index: dict[str, int], tensors: tuple[RowTensor, ...], kinds: dict[str, TensorKind]) -> RowPart:
    read = [index[name] for name in part.inputs if kinds[name] is not TensorKind.CONSTANT]
    inputs = tuple((tensor, RowPropagator(tensors[tensor].rows, whole=True)) for tensor in read)
    return RowPart(part.name, inputs, tuple(index[name] for name in part.outputs), 1, 1, atomic=True)


def _written_together(graph: RowGraph) -> RowGraph:
    """The graph in which the parts that share the rows of a result are run side by side.

    Columns of an upscaled image, say, are written by a part each. Where another part reads the tensor, that one asks all of them for its
    rows; where none does, the last of them asks the others, as if it read what they write. So it does where they run row by row: there a
    reader that needs all rows asks that one first (``RowGraph.is_asked_last``).
    """
    parts = list(graph.parts)
    for tensor, (writers, readers) in enumerate(zip(graph.writers(), graph.readers(), strict=True)):
        several = [writer for writer, _ in writers]
        alike = {(parts[w].rows, parts[w].maps, parts[w].segment, parts[w].outputs) for w in several}
        if len(several) < 2 or len(alike) > 1 or any(parts[w].atomic for w in several):
            continue
        last = parts[several[-1]]
        if not readers or last.most_rows:
            at = last.maps[0] if last.maps else None
            parts[several[-1]] = replace(last, inputs=(*last.inputs, (tensor, RowPropagator(last.rows, at=at))))
    return RowGraph(tuple(parts), graph.tensors)


_LATELY: deque[tuple[Network, RowGraph]] = deque(maxlen=16)
"""The newest networks, more than the forms of one, with their row graphs."""


def row_graph(network: Network) -> RowGraph:
    """The rows of every tensor of the arena and the parts that make them; what cannot be cut is one row. It is made once of a network."""
    found = next((graph for one, graph in _LATELY if one is network), None)
    if found is None:
        found = _row_graph(network)
        _LATELY.append((network, found))
    return found


def _row_graph(network: Network) -> RowGraph:
    graph = network.graph
    kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
    segments = {name: number for number, segment in enumerate(network.segments) for name in segment.parts}
    before: dict[str, set[int]] = {part.name: set() for part in graph.parts}
    for first, second, _ in overwriting_parts(network):
        before[second].add(graph.index(first))
    geometry = Geometry.of(network)
    tensors = tuple(geometry.row_tensor(tensor) for tensor in graph.tensors if tensor.kind is not TensorKind.CONSTANT)
    index = {tensor.name: i for i, tensor in enumerate(tensors)}
    parts = []
    for number, part in enumerate(graph.parts):
        payload, after = ethosu_part(part), before[part.name]
        # A part that overwrites what it reads runs whole.
        single = number in after
        made = _kernel_part(part, payload, index, geometry, single=single) if payload else _opaque_part(part, index, tensors, kinds)
        parts.append(replace(made, after=tuple(sorted(after - {number})), segment=segments[part.name]))
    return _written_together(_stored_in_place(network, RowGraph(tuple(parts), tensors), index))
