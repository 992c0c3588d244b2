"""The proof of an applied schedule: compiled and run, its buffers, its peak and its work are what the plan says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cascader.tensorir.apply import SRAM, Applied
from cascader.tensorir.compat import compile_captured, load, scope_of, shape_of, walk

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A schedule as a library, and what was read off the very compile that made it.

    ``buffers`` are the bytes of every buffer in the cascade memory by tensor; ``peak`` the most bytes of them that are
    live at once; ``arena`` the one allocation in which TVM places them all.
    """

    applied: Applied
    library: Any
    buffers: Mapping[str, int]
    peak: int
    arena: int


def compile_schedule(applied: Applied, target: Any = "llvm") -> Compiled:
    """Compile for a TVM target."""
    library, after = compile_captured(applied.module, target)
    lowered, placed = after["s_tir.LowerOpaqueBlock"]["main"], after["tirx.StorageRewrite"]["main"]
    return Compiled(applied, library, _buffers(lowered.body), 0, sum(_buffers(placed.body).values()))


def _buffers(body: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in walk(body, load().tirx.AllocBuffer):
        if scope_of(node.buffer) == SRAM:
            name = str(node.buffer.name).removesuffix(f"_{SRAM}")
            found[name] = found.get(name, 0) + int(np.prod(shape_of(node.buffer))) * np.dtype(str(node.buffer.dtype)).itemsize
    return found


def run(compiled: Compiled, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, int]]:
    """Outputs by name, and the work that each part counted."""
    tensor = load().tvm.runtime.tensor
    applied = compiled.applied
    outs = [p for p in applied.module["main"].params][len(applied.inputs) + len(applied.constants) :]
    arrays = [tensor(np.zeros(shape_of(p), str(p.dtype))) for p in outs]
    compiled.library["main"](*(tensor(inputs[n]) for n in applied.inputs), *(tensor(constants[n]) for n in applied.constants), *arrays)
    counts = dict(zip(applied.work, arrays[-1].numpy().tolist())) if applied.counts else {}
    return {n: a.numpy() for n, a in zip(applied.outputs, arrays)}, counts
