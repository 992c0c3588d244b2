"""Overwriting: pairs of parts whose order matters because both use one byte of a tensor and one of them writes it again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.byte_numbers import byte_numbers
from cascader.ethosu.network.network import CpuPart, Network, arena_reads, arena_writes, ethosu_part
from cascader.graph.cascader_graph import Part, Tensor, TensorKind


def _used(part: Part, tensor: Tensor, *, written: bool) -> NDArray[np.bool_]:
    """For every byte of the tensor whether the part reads it (with ``written``: writes it)."""
    used = np.zeros(tensor.size, np.bool_)
    payload = ethosu_part(part)
    if payload is not None:
        for name, feature_map in arena_writes(payload) if written else arena_reads(payload):
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
