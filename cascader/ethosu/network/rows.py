"""From a Network of Ethos-U parts to the RowGraph that the generic cascader works on.

A row of the RowGraph is a step along the axis of the parts that use the tensor: a row of its feature maps, or a column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.network.carried_rows import with_carried_rows
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from cascader.ethosu.network.overlaps import byte_numbers
from cascader.ethosu.network.overwriting import overwritable_operands, overwriting_parts
from cascader.ethosu.network.views import part_views
from cascader.graph.cascader_graph import TensorKind
from cascader.graph.in_place import LastReaders
from cascader.graph.row_graph import RowGraph, RowPart, Writers
from cascader.graph.row_maps import RowPropagator
from cascader.graph.row_projection import RowProjection
from npu_model.program import FeatureMap


def _may_be_overwritten(graph: RowGraph, writers: Writers, lasts: LastReaders, part: int, operand: int) -> bool:
    """Whether only this part makes its output, with the operand's rows, and is the last to read them. A variable's old bytes stay."""
    (output,) = graph.parts[part].outputs
    new, old = graph.tensors[output], graph.tensors[operand]
    if not (new.row_bytes and old.row_bytes):
        return False
    alike = (old.rows, old.row_bytes) == (new.rows, new.row_bytes) and writers[output] == [(part, 0)]
    kinds = old.kind in (TensorKind.INPUT, TensorKind.INTERMEDIATE) and new.kind is not TensorKind.VARIABLE
    return alike and kinds and lasts.is_last(part, operand)


def _stored_in_place(operands_of: Sequence[Sequence[str]], graph: RowGraph) -> RowGraph:
    """The graph with the operands that results overwrite; ``operands_of`` has the operands that each part may overwrite.

    If there are two such operands, the result overwrites the one that more parts read. That operand exists anyway, so the result needs no
    room of its own. The other one's rows are made when the sum needs them.
    """
    parts, writers, readers, lasts = [], graph.writers(), graph.readers(), LastReaders(graph)
    index = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    for at, (names, facts) in enumerate(zip(operands_of, graph.parts, strict=True)):
        operands = [index[name] for name in names]
        fitting = [operand for operand in operands if _may_be_overwritten(graph, writers, lasts, at, operand)]
        chosen = max(fitting, key=lambda operand: len(readers[operand]), default=None)
        parts.append(replace(facts, in_place=chosen))
    return RowGraph(tuple(parts), graph.tensors)


def _row_bytes(feature_map: FeatureMap, unit: int) -> NDArray[np.int64]:
    """Places in a row of ``unit`` bytes of the bytes of a map's first row."""
    return byte_numbers(feature_map, (0, 1)) % unit


def _follows_dead_rows(kernels: Sequence[EthosuPart], parts: Sequence[RowPart], source: int, unit: int) -> bool:
    """Whether parts that run side by side write no byte of a row that one of them still reads, if their results lie over their input.

    Row y of a result lies over row y of the input. Before a part makes that row, those before it have made theirs.
    """
    rows = np.arange(parts[0].rows, dtype=np.int64)
    if any((needs.first_rows(rows) < rows).any() for part in parts for tensor, needs in part.inputs if tensor == source):
        return False
    read = np.zeros(unit, np.bool_)
    for kernel in reversed(kernels):
        read[_row_bytes(kernel.operation.ifm, unit)] = True
        if read[_row_bytes(kernel.operation.ofm, unit)].any():
            return False
    return True


def _over_dead_rows(network: Network, graph: RowGraph) -> RowGraph:
    """The graph with the results that slices of channels write over rows of their input which have died.

    A slice asks those before it for its rows, and reads none of them: so no slice is ahead of another.
    """
    parts, readers = list(graph.parts), graph.readers()
    for target, found in enumerate(graph.writers()):
        numbers, new = [number for number, _ in found], graph.tensors[target]
        source = next((tensor for tensor, _ in parts[numbers[0]].inputs), target) if len(numbers) > 1 else target
        old, writers = graph.tensors[source], [parts[number] for number in numbers]
        same = (old.rows, old.row_bytes) == (new.rows, new.row_bytes) and old.row_bytes
        inside = same and new.kind is old.kind is TensorKind.INTERMEDIATE
        if source == target or not inside or numbers != [reader for reader, _ in readers[source]]:
            continue
        alike = {(part.rows, part.maps, part.segment, part.outputs, part.after, part.atomic, len(part.inputs)) for part in writers}
        kernels = [kernel for number in numbers for kernel in [ethosu_part(network.graph.parts[number])] if kernel is not None]
        plain = alike == {(writers[0].rows, (), writers[0].segment, (target,), (), False, 1)} and len(kernels) == len(writers)
        if plain and _follows_dead_rows(kernels, writers, source, old.row_bytes):
            before = RowPropagator(new.rows, taps=1 - new.rows, pad=-new.rows)
            for at, number in enumerate(numbers):
                asked = ((target, before),) if at else ()
                parts[number] = replace(parts[number], in_place=source, inputs=(*parts[number].inputs, *asked))
    return RowGraph(tuple(parts), graph.tensors)


def _written_together(graph: RowGraph) -> RowGraph:
    """The graph in which the parts that share the rows of a result are run side by side.

    For example, several parts write different columns of an upscaled image. A part that reads the tensor asks all its writers for rows.
    Without a reader, the last writer asks the others, as if it read their results. It also does if they run row by row: then a reader that
    needs all rows asks that writer first (``RowGraph.is_asked_last``).
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
"""The number of networks whose row graphs are kept: more than the forms of one network."""


def row_graph(network: Network) -> RowGraph:
    """The rows of every tensor and the parts that make them. A tensor that cannot be cut is one row. It is computed once for a network.

    Rows of a tensor with a home outside the arena take no bytes in it.
    """
    found = next((graph for one, graph in _LATELY if one is network), None)
    if found is None:
        found = known_row_graph(network)
        _LATELY.append((network, found))
    return found


def known_row_graph(network: Network, units: Mapping[str, int] | None = None) -> RowGraph:
    """Like :func:`row_graph`, with given bytes of a row for the tensors in ``units``, because no view of single rows tells them."""
    graph = network.graph
    segments = {name: number for number, segment in enumerate(network.segments) for name in segment.parts}
    before: dict[str, set[int]] = {part.name: set() for part in graph.parts}
    for first, second, _ in overwriting_parts(network):
        before[second].add(graph.index(first))
    striped = {name: (part_views(kernel), kernel.axis.number) for name, kernel in network.kernels.items()}
    operands = [overwritable_operands(part) for part in graph.parts]
    alike = ((part.outputs[0], operand) for part, some in zip(graph.parts, operands, strict=True) for operand in some)
    # Tensors between NPU jobs and CPU operators do not roll.
    projection = RowProjection(graph, striped, alike, {port.tensor for port in network.handed_on}, units)
    parts = []
    for number, part in enumerate(graph.parts):
        after = before[part.name]
        # A part that overwrites what it reads runs whole.
        made = projection.part(part, whole=number in after)
        parts.append(replace(made, after=tuple(sorted(after - {number})), segment=segments[part.name]))
    outside = {home.tensor for home in network.homes}
    carried = (
        with_carried_rows(network, RowGraph(tuple(parts), projection.tensors)) if outside else RowGraph(tuple(parts), projection.tensors)
    )
    tensors = tuple(replace(tensor, row_bytes=0) if tensor.name in outside else tensor for tensor in carried.tensors)
    made_from = RowGraph(carried.parts, tensors)
    return _written_together(_over_dead_rows(network, _stored_in_place(operands, made_from)))
