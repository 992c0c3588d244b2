"""Data beats that a kernel moves by region, counted by the rules of the accelerator's family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import block_jobs
from npu_model.cost.deep_traffic import deep_beats, unmet
from npu_model.program import KernelOperation

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
    """Region, beats read and beats written of everything that a kernel moves, the commands apart."""
    return _COUNTERS[device.commands](op, device)
