"""Graph: the Tensor Expressions of a network, read as operators of the Ethos-U, and a hash of what they compute."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from cascader.frontends.te.matchers import Operator, operator
from cascader.graph.cascader_graph import Part
from cascader.tensorir.te_frontend import TeGraph, read_graph
from npu_model.errors import InputError

Array = npt.NDArray[Any]


class Graph(Struct, frozen=True):
    """The Tensor Expressions of a network: its input placeholders, its output tensors, and the values of all other placeholders."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    constants: Mapping[Any, Array] = field(default_factory=dict)


def graph_of(inputs: Sequence[Any], outputs: Sequence[Any], constants: Mapping[Any, Array] | None = None) -> Graph:
    """The graph from placeholders to outputs. Either may be a single tensor."""
    several = [list(one) if isinstance(one, (list, tuple)) else [one] for one in (inputs, outputs)]
    return Graph(tuple(several[0]), tuple(several[1]), dict(constants or {}))


def operators_of(graph: Graph) -> TeGraph:
    """The graph's Parts, one for each Ethos-U operator, with the Propagators of its expressions.

    InputError if a stage is not such an operator.
    """
    return read_graph(graph.inputs, graph.outputs, graph.constants, [operator])


def digest(read: TeGraph) -> str:
    """SHA-256 of what a graph computes: its operators with their attributes and tensors, and the constants."""
    found = hashlib.sha256()
    for part in read.affine.parts:
        found.update(repr((part.name, part.inputs, part.shape, operator_at(read, part))).encode())
    for tensor in read.affine.tensors:
        found.update(repr(tensor).encode())
        if tensor.name in read.constants:
            found.update(np.ascontiguousarray(read.constants[tensor.name]).tobytes())
    return found.hexdigest()


def operator_at(read: TeGraph, part: Part) -> Operator:
    """The operator of a Part; InputError if the graph was read as something else."""
    found = read.match(part).payload
    if not isinstance(found, Operator):
        raise InputError(f"Part {part.name!r} is not an operator of the Ethos-U: read the graph with operators_of.")
    return found
