"""Tensor Expressions as models: from their source to a task of the search, and what they compute on the machine that this runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_model.errors import InputError
from npu_testbed.input_shapes import Source

if TYPE_CHECKING:
    from typing import TypeGuard

    from cascader.ethosu.search.task import Task
    from cascader.frontends.te.graph import Graph
    from cascader.tensorir.te_frontend import TeGraph
    from npu_model.memory.system import MemorySystem
    from npu_model.timing import TimingParameters
    from npu_testbed.verification import Arrays

HOST = "the Tensor Expressions, compiled by TVM for this machine"
"""Reference of a command stream that was made of Tensor Expressions."""

_AT_HAND = "tensor_expressions:"
"""Beginning of the source of a graph that is at hand, of which there is no file; its number follows."""

_PYTHON = ".py"

_GRAPHS: dict[str, Graph] = {}


class TeModel(Struct, frozen=True, eq=False):
    """A graph with its name, without folder, and a hash of what it computes."""

    name: str
    graph: Graph
    read: TeGraph
    sha256: str


def is_graph(value: object) -> TypeGuard[Graph]:
    """Whether a value is a graph of Tensor Expressions; whoever has one has imported what makes it."""
    made = sys.modules.get("cascader.frontends.te.graph")
    return made is not None and isinstance(value, made.Graph)


def source_of(graph: Graph) -> str:
    """A source that stands for a graph in this process."""
    found = next((source for source, one in _GRAPHS.items() if one is graph), f"{_AT_HAND}{len(_GRAPHS)}")
    _GRAPHS[found] = graph
    return found


def is_te(source: str) -> bool:
    """Whether a model's source stands for Tensor Expressions: a function of a Python file, such a file alone, or a graph at hand.

    >>> is_te("net.py:make_graph"), is_te("net.py"), is_te("net.tflite"), is_te("zoo:net")
    (True, True, False, False)
    """
    path, _, function = source.rpartition(":")
    return source in _GRAPHS or (source if not path else path if function.isidentifier() else "").endswith(_PYTHON)


def load_graph(source: str) -> tuple[str, Graph]:
    """The graph of a source, and its name without folder."""
    if isinstance(source, Source) and source.shapes:
        raise InputError(f"--input-shape was given with {source!s}: the shapes of Tensor Expressions are those of their placeholders.")
    if source in _GRAPHS:
        return _AT_HAND.rstrip(":"), _GRAPHS[source]
    from cascader.frontends.te.graph_file import graph_from_file  # noqa: PLC0415  # TVM is for who gives Tensor Expressions

    path, _, function = source.rpartition(":")
    return f"{Path(path).name}:{function}", graph_from_file(source)


def load_te(source: str) -> TeModel:
    """The graph of a source, read as operators of the Ethos-U; InputError if one of its stages is none."""
    from cascader.frontends.te.graph import digest, operators_of  # noqa: PLC0415  # the same

    name, graph = load_graph(source)
    read = operators_of(graph)
    return TeModel(name, graph, read, digest(read))


def te_task(
    source: str,
    accelerator_config: str,
    system: MemorySystem,
    *,
    rungs: int | None,
    timing: TimingParameters,
    recompute: Fraction | None,
    homes: tuple[str, ...],
    spill: str | None,
    progress: Callable[[str], None],
) -> Task:
    """The task of scheduling Tensor Expressions, as :func:`npu_testbed.tasks.task_of` has it for a file."""
    from cascader.frontends.te.network import import_graph  # noqa: PLC0415  # the same
    from cascader.tensorir.compat import load  # noqa: PLC0415  # the same
    from npu_testbed.tasks import network_task  # noqa: PLC0415  # the same

    model = load_te(source)
    progress(f"Choosing blocks and encoding weights of {model.name}")
    network = import_graph(model.read, accelerator_config, system, timing)
    return network_task(
        network,
        (model.name, model.sha256, (("apache-tvm", load().version),)),
        accelerator_config,
        system,
        rungs=rungs,
        timing=timing,
        recompute=recompute,
        homes=homes,
        spill=spill,
    )


def refuse_te(source: str) -> InputError:
    """The error that says that what is asked for takes no Tensor Expressions."""
    return InputError(f"{source} is a graph of Tensor Expressions where a model file is needed: give it to schedule, frontier or verify.")


def host_runs(graph: Graph, inputs: Sequence[Arrays]) -> list[Arrays]:
    """The outputs of inferences of the graph on this machine."""
    from cascader.frontends.te.host import host_outputs  # noqa: PLC0415  # the same

    return list(host_outputs(graph, inputs))
