"""Overwriting: operands that a result may be stored over, and parts that write again what others use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import ARENA, CpuPart, Network, ethosu_part, tensor_reads, tensor_writes
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, Layout, OperationKind
from npu_model.shapes import ceil_div


def byte_numbers(feature_map: FeatureMap, rows: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """Every byte of some rows (first and end; None: of all), as offsets from the tensor's start; of NHCWB16 whole bricks.

    >>> from npu_model.program import DataType, Strides, Tiles
    >>> from npu_model.shapes import Shape3D
    >>> shape = Shape3D(2, 2, 3)
    >>> fm = FeatureMap(1, shape, DataType(8, signed=True), Layout.NHWC, Tiles.single(shape, 100), Strides(10, 4, 1))
    >>> byte_numbers(fm, (1, 2)).tolist()
    [110, 111, 112, 114, 115, 116]
    """
    low, high = rows or (0, feature_map.shape.height)
    size, strides, depth = feature_map.dtype.bytes, feature_map.strides, feature_map.shape.depth
    bricks = feature_map.layout is Layout.NHCWB16
    column, length = (BRICK * size, BRICK * size) if bricks else (strides.x, depth * size)
    groups = np.arange(ceil_div(depth, BRICK) if bricks else 1, dtype=np.int64) * strides.c
    found = [np.empty(0, dtype=np.int64)]
    for base, first_row, _, height, width in feature_map.tile_boxes():
        inside = np.arange(max(low - first_row, 0), min(high - first_row, height), dtype=np.int64)
        pixels = np.arange(width, dtype=np.int64) * column
        grid = inside[:, None, None, None] * strides.y + groups[:, None, None] + pixels[:, None] + np.arange(length, dtype=np.int64)
        found.append(base + grid.ravel())
    return np.concatenate(found)


def overwritable_operands(part: Part) -> tuple[str, ...]:
    """Names of the tensors that the part's output may be stored over, in operand order; empty if there is none.

    An elementwise kernel reads a block before it writes it, and no other element of the block's place; so an operand with
    the output's shape, layout, strides, element size and offset qualifies, if the other operand does not read the same
    tensor differently. (Vela reuses the storage of elementwise inputs by the same argument.)
    """
    payload = ethosu_part(part)
    if payload is None or payload.operation.kind is not OperationKind.ELEMENTWISE:
        return ()
    operands, ofm = payload.operands, payload.operation.ofm
    names = dict.fromkeys(name for name, _ in operands if name is not None and ofm.region == ARENA)
    return tuple(name for name in names if all(m.same_places(ofm) for other, m in operands if other == name))


def _used(part: Part, tensor: Tensor, *, written: bool) -> NDArray[np.bool_]:
    """For every byte of the tensor whether the part reads it (with ``written``: writes it)."""
    used = np.zeros(tensor.size, np.bool_)
    payload = ethosu_part(part)
    if payload is not None:
        for name, feature_map in tensor_writes(payload) if written else tensor_reads(payload):
            if name == tensor.name:
                used[byte_numbers(feature_map)] = True
    elif isinstance(part.payload, CpuPart):
        for port in part.payload.outputs if written else part.payload.inputs:
            if port.tensor == tensor.name:
                used[port.offset : port.offset + port.size] = True
    return used


def overwriting_parts(network: Network) -> Iterator[tuple[str, str, str]]:
    """(earlier part, later part, tensor) where the later one writes bytes that the earlier one uses, in the order of the graph.

    Of a variable also readers that come after a writer. A part that reads and writes the same bytes is its own partner. The
    pieces of a concatenation are apart and make no pair; plain producers and consumers are no pairs either.
    """
    graph = network.graph
    for tensor in graph.tensors:
        if tensor.kind is TensorKind.CONSTANT:
            continue
        writers, readers = graph.producers(tensor.name), graph.consumers(tensor.name)
        variable = tensor.kind is TensorKind.VARIABLE
        last = max((graph.index(part.name) for part in writers), default=-1)
        if len(writers) > 1 or (variable and writers) or any(graph.index(part.name) <= last for part in readers):
            yield from _pairs(network, tensor, variable=variable)


def _pairs(network: Network, tensor: Tensor, *, variable: bool) -> Iterator[tuple[str, str, str]]:
    graph = network.graph
    writers, readers = graph.producers(tensor.name), graph.consumers(tensor.name)
    writes = {part.name: _used(part, tensor, written=True) for part in writers}
    reads = {part.name: _used(part, tensor, written=False) for part in readers}
    at = {name: graph.index(name) for name in (*writes, *reads)}
    used = [(name, at[name], others) for name, others in (*writes.items(), *reads.items())]
    for second, marks in writes.items():
        step = at[second]
        for first, before, others in used:
            if (before < step or (before == step and others is not marks)) and (marks & others).any():
                yield first, second, tensor.name
    if variable:
        for first, marks in writes.items():
            for second, others in reads.items():
                if at[first] < at[second] and (marks & others).any():
                    yield first, second, tensor.name
