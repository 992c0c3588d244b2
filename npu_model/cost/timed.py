"""A program's work by the rules of its accelerator's family: the jobs of its kernels, their data beats, and the words of DMA transfers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import block_jobs, program_jobs
from npu_model.cost.deep_jobs import TimedProgram, timed_chains
from npu_model.cost.deep_traffic import deep_beats, unmet
from npu_model.program import DmaOperation, KernelOperation, Program
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from npu_model.weight_stream.work import StreamWork

Beats = Iterator[tuple[int, int, int]]
"""Region, beats read and beats written."""


def _job_beats(op: KernelOperation, device: Accelerator) -> Beats:
    for job in block_jobs(op, device):
        for read in (*job.scales, *(read for step in job.steps for read in step.fetches + step.weights)):
            yield read.region, sum(read.runs), 0
        yield op.ofm.region, 0, sum(job.writes)


_COUNTERS: dict[str, Callable[[KernelOperation, Accelerator], Beats]] = {"u55": _job_beats, "u85": deep_beats}

_UNMET: dict[str, Callable[[KernelOperation, Accelerator], str]] = {"u85": unmet}
"""Families whose published inferences lack some kinds of kernels."""


def unmet_beats(op: KernelOperation, device: Accelerator) -> str:
    """The kind of a kernel whose beats no published inference shows; "" if they are known."""
    unmet_of = _UNMET.get(device.commands)
    return "" if unmet_of is None else unmet_of(op, device)


def kernel_beats(op: KernelOperation, device: Accelerator) -> Beats:
    """Region, beats read and beats written for everything that a kernel moves, except for the commands."""
    return _COUNTERS[device.commands](op, device)


def copied_words(op: DmaOperation, word: int) -> int:
    """Words of ``word`` bytes that a transfer moves: from its whole length, or from each of its rows."""
    rows = 1 if op.rows is None else op.rows.count * op.rows.planes
    return rows * ceil_div(op.length, word)


_CHAINS: dict[str, Callable[[Program, Accelerator, TimingParameters], TimedProgram]] = {"u85": timed_chains}
"""Families whose kernels form chains."""


def own_jobs(program: Program, device: Accelerator, timing: TimingParameters) -> TimedProgram | None:
    """The program with its jobs if kernels form chains; None if :mod:`npu_model.cost.block_jobs` knows each kernel's jobs."""
    chains = _CHAINS.get(device.commands)
    return None if chains is None else chains(program, device, timing)


def forms_chains(device: Accelerator) -> bool:
    """Whether kernels of an accelerator form chains, whose jobs are those of several kernels."""
    return device.commands in _CHAINS


def timed_program(program: Program, device: Accelerator, timing: TimingParameters, work: StreamWork | None = None) -> TimedProgram:
    """The program with its jobs; ``work`` is as in :func:`npu_model.cost.block_jobs.program_jobs`."""
    return own_jobs(program, device, timing) or TimedProgram(program, program_jobs(program, device, timing, work), {})
