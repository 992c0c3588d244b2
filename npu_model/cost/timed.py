"""The jobs of a program's kernels by the rules of its accelerator's family."""

from __future__ import annotations

from collections.abc import Callable

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import program_jobs
from npu_model.cost.deep_jobs import TimedProgram, timed_chains
from npu_model.program import Program
from npu_model.timing import TimingParameters
from npu_model.weight_stream.work import StreamWork

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
