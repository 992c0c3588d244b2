"""The proof of a plan in TensorIR, compiled and run: its outputs, buffers, peak and work equal the plan's claims.

Sizes and live ranges come from the module that becomes machine code, not from a copy that is lowered separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.plan.stripe_plans import StripePlan
from cascader.tensorir.apply import Applied, apply, uncascaded
from cascader.tensorir.compat import SRAM, bytes_of, check_form, load, scope_of, shape_of
from cascader.tensorir.measured import LiveRange, Measured, compile_measured, live_ranges, peak
from cascader.tensorir.te_frontend import TeGraph
from npu_model.errors import InputError

Array = npt.NDArray[Any]


class CompiledPlan(Struct, frozen=True, eq=False):
    """Applied plans as machine code, with the memory of their function.

    ``resident`` is the most bytes alive at once in the cascade memory, with the function's inputs and outputs.
    """

    applied: Applied
    measured: Measured
    resident: int

    def run(self, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, int]]:
        """Run the code and return the outputs by tensor, and the counted work by part.

        InputError if an input is missing or has another form.
        """
        tensor = load().tvm.runtime.tensor
        applied = self.applied
        parameters = list(applied.module["main"].params)
        arrays, given = {**inputs, **constants, **applied.tables}, []
        for name, buffer in zip((*applied.inputs, *applied.constants), parameters, strict=False):
            if name not in arrays:
                raise InputError(f"Tensor {name!r} is not among the {len(arrays)} arrays that are given: add it.")
            check_form(name, arrays[name], buffer)
            given.append(arrays[name])
        made = [tensor(np.zeros(shape_of(buffer), str(buffer.dtype))) for buffer in parameters[len(given) :]]
        self.measured.library["main"](*(tensor(array) for array in given), *made)
        counted = dict(zip(applied.work, made[-1].numpy().tolist(), strict=True)) if applied.counts else {}
        return {name: array.numpy() for name, array in zip(applied.outputs, made, strict=False)}, counted


QUICK: Mapping[str, Any] = {"kind": "llvm", "opt-level": 0}
"""Target for this machine, with LLVM's fastest compilation, because a proof runs once."""


def compile_schedule(applied: Applied, target: Any = QUICK) -> CompiledPlan:
    """Compile for a target of TVM; ``"llvm"`` optimises, which takes longer."""
    # CompiledPlan.run checks every array before it calls.
    measured = compile_measured(applied.module, "main", target if isinstance(target, str) else dict(target), checked=False)
    inputs, outputs = set(applied.inputs) - applied.external, set(applied.outputs) - applied.external
    ranges = live_ranges(measured.lowered.body)
    last = max((live.last for live in ranges.values()), default=0)

    def held(buffer: Any, live: LiveRange) -> LiveRange:
        """The bytes of inputs, which live from the beginning, and of outputs, which live until the end."""
        return LiveRange(0 if str(buffer.name) in inputs else live.first, last if str(buffer.name) in outputs else live.last)

    def size(buffer: Any) -> int:
        return bytes_of(buffer) if scope_of(buffer) == SRAM or str(buffer.name) in inputs | outputs else 0

    return CompiledPlan(applied, measured, peak({buffer: held(buffer, live) for buffer, live in ranges.items()}, size))


class RunProof(Struct, frozen=True):
    """Claims next to facts: bytes of each buffer, peaks in bytes, work of each part, the outputs, and whether they are ``equal``.

    ``planned`` is the plan's memory with inputs and outputs; None without a plan.
    """

    claimed: Mapping[str, int]
    buffers: Mapping[str, int]
    live: int
    resident: int
    planned: int | None
    arena: int
    claimed_work: Mapping[str, int]
    work: Mapping[str, int]
    outputs: Mapping[str, Array]
    equal: bool
    seconds: float

    def failures(self) -> tuple[str, ...]:
        """Claims that do not hold, one sentence each; none if the proof succeeds."""
        wrong = [
            f"Tensor {name!r} has a buffer of {self.buffers.get(name, 0)} bytes where the plan says {self.claimed.get(name, 0)}."
            for name in sorted(self.claimed.keys() | self.buffers.keys())
            if self.claimed.get(name) != self.buffers.get(name)
        ]
        wrong += [
            f"Part {name!r} did {self.work[name]} multiply-accumulates where the plan says {claimed}."
            for name, claimed in self.claimed_work.items()
            if self.work[name] != claimed
        ]
        if self.planned is not None and self.resident > self.planned:
            wrong.append(f"{self.resident} bytes are alive at once where the plan says {self.planned}.")
        if not self.equal:
            wrong.append("The outputs are not those that were expected.")
        return tuple(wrong)


def prove(
    graph: TeGraph, plans: Sequence[StripePlan], inputs: Mapping[str, Array], expected: Mapping[str, Array] | None = None
) -> RunProof:
    """Apply the plans, compile, run, and compare. By default the ``expected`` outputs are the outputs of the graph without a cascade.

    ``seconds`` count from the plans to the outputs. InputError if the plans do not cover the graph.
    """
    if expected is None:
        expected, _ = compile_schedule(apply(graph, uncascaded(graph))).run(inputs, graph.constants)
    start = perf_counter()
    compiled = compile_schedule(apply(graph, [plan.group for plan in plans], count=True))
    outputs, work = compiled.run(inputs, graph.constants)
    seconds = perf_counter() - start
    return RunProof(
        claimed=compiled.applied.claims,
        buffers=compiled.measured.buffers,
        live=compiled.measured.live,
        resident=compiled.resident,
        planned=max(plan.memory for plan in plans),
        arena=compiled.measured.placed,
        claimed_work=compiled.applied.work,
        work=work,
        outputs=outputs,
        equal=all(np.array_equal(outputs[name], expected[name]) for name in outputs),
        seconds=seconds,
    )
