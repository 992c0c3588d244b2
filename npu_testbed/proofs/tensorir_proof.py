"""The proof of a schedule in TensorIR, compiled and run: its outputs, memory and work must equal the schedule's and LiteRT's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray
from tabulate import tabulate

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.frontends.vela.model_changes import without_constant_outputs
from cascader.tensorir.compat import load
from cascader.tensorir.schedule_run import CompiledSchedule, ScheduleRun, compile_schedule
from npu_model.errors import InputError
from npu_model.printable import printable
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.proofs.verification import LITERT, OutputComparison, Reference, compare, functional_outputs, seeded_inputs
from validation.layout import grid
from validation.litert.judge import litert_installed, reference_outputs

PROGRAM = "the schedule's Program, run bit by bit"

Arrays = Mapping[str, NDArray[Any]]


class TensorirProof(Struct, frozen=True):
    """The run of a schedule's compiled TensorIR, and the plan; all memory in bytes.

    ``comparisons`` compare all outputs with each reference, once for the run in one arena and once for the run in buffers. ``claimed`` and
    ``allocated`` are the sizes of the buffers by name, planned and as lowered; ``live`` is the peak of whole buffers, and ``placed`` is
    TVM's own arena for these buffers. Both exceed ``arena`` if buffers share bytes row by row. ``damaged`` bytes lie next to the arena,
    ``stale`` ones are staged weights; both must be 0. Work is in multiply-accumulates of one inference; ``unequal_parts`` are the parts
    whose work differs from the plan.
    """

    tvm: str
    kernels: int
    jobs: int
    inferences: int
    comparisons: tuple[OutputComparison, ...]
    arena: int
    claimed: dict[str, int]
    allocated: dict[str, int]
    live: int
    placed: int
    damaged: int
    stale: int
    planned_macs: int
    executed_macs: int
    unequal_parts: tuple[str, ...]
    compile_seconds: float
    run_seconds: float
    skipped: str = ""

    @property
    def equal_outputs(self) -> bool:
        """Whether no byte of any output differs from any reference."""
        return not any(row.differing for row in self.comparisons)

    @property
    def passed(self) -> bool:
        """Whether outputs, sizes and work are equal, no guard is damaged and no staged weight was overwritten."""
        return self.equal_outputs and self.claimed == self.allocated and not (self.damaged or self.stale or self.unequal_parts)

    def text(self) -> str:
        """The proof as two tables: outputs, then memory and work with the number that each must equal."""
        outputs = [(printable(row.output), row.reference, f"{row.differing:,} of {row.size:,} bytes differ") for row in self.comparisons]
        sizes = sum(self.claimed.values())
        measured = [
            ("arena", f"{self.arena:,} bytes", f"{self.damaged:,} bytes beside it changed"),
            ("buffers", f"{sizes:,} bytes in {len(self.claimed)}", f"{_unequal(self.claimed, self.allocated)} of another size as lowered"),
            ("whole buffers", f"{self.live:,} bytes live at once", f"TVM places them in {self.placed:,}"),
            ("staged weights", f"{self.stale:,} bytes stale", "when a job used them"),
            ("work", f"{self.executed_macs:,} multiply-accumulates", f"{self.planned_macs:,} planned"),
            ("time", f"{self.compile_seconds:.1f} s to compile", f"{self.run_seconds:.1f} s to run {2 * self.inferences} times"),
        ]
        head = f"TensorIR, TVM {self.tvm}: {self.kernels} kernels in {self.jobs} jobs, {'proven' if self.passed else 'NOT PROVEN'}"
        tables = [grid(("output", "reference", "result"), outputs, (True, True, True)), tabulate(measured, tablefmt="plain")]
        return "\n\n".join([head, *tables, *filter(None, (self.skipped,))])

    def document(self) -> dict[str, Any]:
        """The proof as plain values, without the sizes of single buffers."""
        plain: dict[str, Any] = to_builtins(self)
        for key in ("claimed", "allocated"):
            plain[f"{key}_bytes"] = sum(plain.pop(key).values())
        return plain | {"buffers": len(self.claimed), "sizes_equal": self.claimed == self.allocated, "passed": self.passed}


def _unequal(claimed: Mapping[str, int], allocated: Mapping[str, int]) -> int:
    return sum(claimed.get(name) != allocated.get(name) for name in claimed.keys() | allocated.keys())


def _merged(prefix: str, rows: Sequence[OutputComparison]) -> tuple[OutputComparison, ...]:
    return tuple(OutputComparison(f"{row.reference}, {prefix}", row.output, row.differing, row.size) for row in rows)


def litert_judges(model: bytes) -> Sequence[Reference]:
    """LiteRT as the reference of a schedule from the .tflite file ``model``; empty if it is not installed."""
    if not litert_installed():
        return ()
    return ((LITERT, lambda inputs: reference_outputs(without_constant_outputs(model)[0], inputs)),)


def prove_schedule(
    schedule: Schedule, judges: Sequence[Reference], *, inferences: int = 2, seed: int = 0, progress: Progress = silent
) -> TensorirProof:
    """Compile the schedule's TensorIR and run it on seeded inputs.

    The outputs are compared with the ``judges``, if any, and with the schedule's own Program. InputError if TVM is not
    installed, a kernel cannot be expressed, or the network runs an operator on the CPU that is not a copy.
    """
    load()
    progress("Compiling TensorIR")
    started = perf_counter()
    compiled = compile_schedule(schedule)
    compile_seconds = perf_counter() - started
    network = replace(lower(schedule), constant_outputs=())  # nothing computes these
    inputs = seeded_inputs(network, inferences, seed)
    progress("Running TensorIR")
    started = perf_counter()
    in_arena = [compiled.run_in_arena(arrays, seed + index) for index, arrays in enumerate(inputs)]
    in_buffers = [compiled.run_in_buffers(arrays) for arrays in inputs]
    run_seconds = perf_counter() - started
    progress("Running the references")
    references: list[tuple[str, Sequence[Arrays]]] = [(PROGRAM, functional_outputs(network, inputs))]
    skipped = "" if judges else f"{LITERT} were not asked: install the extra 'numerics'."
    for name, outputs in judges:
        try:
            references.append((name, outputs(inputs)))
        except InputError as error:  # noqa: PERF203  # there are one or two
            # An additional reference must not make the answer worse.
            skipped = f"{str(error).removesuffix('check the model.').rstrip(': ')}: {PROGRAM} is all that was compared."
    comparisons = tuple(
        row
        for name, expected in references
        for prefix, runs in (("in one arena", in_arena), ("buffer by buffer", in_buffers))
        for row in _merged(prefix, compare(name, [run.outputs for run in runs], expected))
    )
    return _proof(schedule, compiled, [*in_arena, *in_buffers], comparisons, (compile_seconds, run_seconds), skipped)


def _proof(
    schedule: Schedule,
    compiled: CompiledSchedule,
    runs: Sequence[ScheduleRun],
    comparisons: tuple[OutputComparison, ...],
    seconds: tuple[float, float],
    skipped: str,
) -> TensorirProof:
    planned = compiled.source.macs
    unequal = tuple(part for part, macs in planned.items() if any(run.macs[part] != macs for run in runs))
    return TensorirProof(
        tvm=load().version,
        kernels=len(planned),
        jobs=len(schedule.jobs),
        inferences=len(runs) // 2,  # each in one arena, and buffer by buffer
        comparisons=comparisons,
        arena=compiled.source.arena_size,
        claimed=compiled.source.claims,
        allocated=compiled.measured.buffers,
        live=compiled.measured.live,
        placed=compiled.measured.placed,
        damaged=sum(run.damaged for run in runs),
        stale=sum(run.stale for run in runs),
        planned_macs=sum(planned.values()),
        executed_macs=int(np.mean([sum(run.macs.values()) for run in runs])),
        unequal_parts=unequal,
        compile_seconds=round(seconds[0], 2),
        run_seconds=round(seconds[1], 2),
        skipped=skipped,
    )
