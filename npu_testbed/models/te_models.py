"""Tensor Expressions as models: the graph of a source, and its results on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from cascader.ethosu.search.request import Source
from npu_model.errors import InputError
from npu_model.front import later
from npu_testbed.models.input_shapes import ShapedSource

with later():
    # TVM is for who gives Tensor Expressions.
    from cascader.frontends.te import graph as graphs
    from cascader.frontends.te import graph_file, host
    from cascader.tensorir import te_frontend

if TYPE_CHECKING:
    from typing import Any, TypeGuard

    from numpy.typing import NDArray

    from cascader.frontends.te.graph import Graph

_AT_HAND = "tensor_expressions:"
"""First characters of the source of a graph in memory; its number follows."""

_PYTHON = ".py"

_GRAPHS: dict[str, Graph] = {}


class TeSource(Source, frozen=True):
    """Tensor Expressions by their source: a function of a Python file, or a graph in memory."""


class TeModel(Struct, frozen=True, eq=False):
    """A graph with its name, without folder, and a hash of what it computes."""

    name: str
    graph: graphs.Graph
    read: te_frontend.TeGraph
    sha256: str


def is_graph(value: object) -> TypeGuard[Graph]:
    """Whether a value is a graph of Tensor Expressions. A caller who has one has imported its module."""
    made = sys.modules.get("cascader.frontends.te.graph")
    return made is not None and isinstance(value, made.Graph)


def source_of(graph: Graph) -> str:
    """A source that represents a graph in this process."""
    found = next((source for source, one in _GRAPHS.items() if one is graph), f"{_AT_HAND}{len(_GRAPHS)}")
    _GRAPHS[found] = graph
    return found


def is_te(source: str) -> bool:
    """Whether a source means Tensor Expressions: a function of a Python file, such a file alone, or a graph in memory.

    >>> is_te("net.py:make_graph"), is_te("net.py"), is_te("net.tflite"), is_te("zoo:net")
    (True, True, False, False)
    """
    path, _, function = source.rpartition(":")
    return source in _GRAPHS or (source if not path else path if function.isidentifier() else "").endswith(_PYTHON)


def load_graph(source: str) -> tuple[str, Graph]:
    """The graph of a source, and its name without folder."""
    if isinstance(source, ShapedSource):
        raise InputError(f"{source.option} was given with {source!s}: the shapes of Tensor Expressions are those of their placeholders.")
    if source in _GRAPHS:
        return _AT_HAND.rstrip(":"), _GRAPHS[source]

    path, _, function = source.rpartition(":")
    return f"{Path(path).name}:{function}", graph_file.graph_from_file(source)


def load_te(source: str) -> TeModel:
    """The graph of a source, read as operators of the Ethos-U; InputError if a stage is not an operator."""
    name, graph = load_graph(source)
    read = graphs.operators_of(graph)
    return TeModel(name, graph, read, graphs.digest(read))


def refuse_te(source: str) -> InputError:
    """The error for a command that takes no Tensor Expressions."""
    return InputError(f"{source} is a graph of Tensor Expressions where a model file is needed: give it to schedule, frontier or verify.")


def host_runs(graph: Graph, inputs: Sequence[Mapping[str, NDArray[Any]]]) -> list[Mapping[str, NDArray[Any]]]:
    """The outputs of inferences of the graph on this machine."""
    return list(host.host_outputs(graph, inputs))
