"""Tensor Expressions that TVM compiles for this machine by its own lowering: the reference for a command stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.frontends.te.graph import Graph
from cascader.tensorir.compat import check_form, load, shape_of
from cascader.tensorir.prove import QUICK
from npu_model.errors import InputError

Array = npt.NDArray[Any]


_LONG = 100_000_000
"""Constants times pixels of inputs and outputs, above which code with all optimisations saves more time than its compilation takes."""


class HostFunction(Struct, frozen=True, eq=False):
    """Machine code of a graph. Its inputs and outputs have the names of their tensors."""

    graph: Graph
    function: Any

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run the code and return the outputs by name; InputError if an input is missing or has another type or shape."""
        tensor, given = load().tvm.runtime.tensor, []
        for placeholder in self.graph.inputs:
            name = str(placeholder.op.name)
            if name not in inputs:
                raise InputError(f"Input {name!r} is not among {', '.join(inputs) or 'no arrays'}: give it.")
            check_form(name, inputs[name], placeholder)
            given.append(np.ascontiguousarray(inputs[name]))
        constants = [np.ascontiguousarray(values) for values in self.graph.constants.values()]
        made = [tensor(np.zeros(shape_of(one), str(one.dtype))) for one in self.graph.outputs]
        self.function(*map(tensor, (*given, *constants)), *made)
        return {str(one.op.name): array.numpy() for one, array in zip(self.graph.outputs, made, strict=True)}


def compiled(graph: Graph) -> HostFunction:
    """The graph compiled with LLVM by TVM's own lowering, without our scheduler. Code that runs for long is optimised."""
    compat = load()
    function = compat.te.create_prim_func([*graph.inputs, *graph.constants, *graph.outputs])
    weights = sum(values.size for values in graph.constants.values())
    pixels = sum(prod(shape_of(tensor)[:-1]) for tensor in (*graph.inputs, *graph.outputs))
    target: Any = "llvm" if weights * pixels > _LONG else dict(QUICK)
    with compat.tvm.transform.PassContext(opt_level=3):
        library = compat.tvm.compile(compat.tvm.IRModule({"main": function}), target=target)
    return HostFunction(graph, library["main"])


def host_outputs(graph: Graph, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
    """The outputs of several inferences, one after the other."""
    made = compiled(graph)
    return [made.run(arrays) for arrays in inputs]
