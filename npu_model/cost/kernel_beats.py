"""Data beats that a kernel moves by region, counted by the rules of the accelerator's family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import block_jobs
from npu_model.cost.deep_traffic import deep_beats
from npu_model.program import KernelOperation

Beats = Iterator[tuple[int, int, int]]
"""Region, beats read and beats written."""


def _job_beats(op: KernelOperation, device: Accelerator) -> Beats:
    for job in block_jobs(op, device):
        for read in (*job.scales, *(read for step in job.steps for read in step.fetches + step.weights)):
            yield read.region, sum(read.runs), 0
        yield op.ofm.region, 0, sum(job.writes)


_COUNTERS: dict[str, Callable[[KernelOperation, Accelerator], Beats]] = {"u55": _job_beats, "u85": deep_beats}


def kernel_beats(op: KernelOperation, device: Accelerator) -> Beats:
    """Region, beats read and beats written of everything that a kernel moves, the commands apart."""
    return _COUNTERS[device.commands](op, device)
