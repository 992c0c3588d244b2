"""Vela's estimate of a whole network: every operation's columns, with transfers hidden under the operation before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from npu_model.accelerator import Accelerator
from validation.vela.estimate.cycles import EstimatedCycles, estimate_cycles, last_slice_cycles
from validation.vela.estimate.memories import SHRAM, copy_cycles
from validation.vela.estimate.operation import EstimatedOperation
from validation.vela.estimate.traffic import VelaTraffic, estimate_traffic


class VelaEstimate(Struct, frozen=True):
    """An operation's estimate.

    ``cycles`` leave DMA out, ``npu_cycles`` have what is visible of it, ``op_cycles`` are the largest of these and every
    memory's access cycles.
    """

    cycles: EstimatedCycles
    traffic: VelaTraffic
    npu_cycles: int
    op_cycles: int


def slack_cycles(op: EstimatedOperation, accelerator: Accelerator) -> int:
    """Cycles of an operation under which the next one's weights or table can arrive.

    Those of its last slice if its weights are buffered, else all (Vela 5.2.0 scheduler, ``slackBufferingCycles``).
    """
    if op.weights is not None and op.weights.staging is not None:
        return last_slice_cycles(op, accelerator)
    return estimate_cycles(op, accelerator).npu


def with_transfers(op: EstimatedOperation, npu: int, own_slack: int, slack: int) -> int:
    """NPU cycles of an operation of ``npu`` cycles with its transfers, of which ``slack`` cycles are hidden under the one before.

    Buffered weights: the copy of all but for what is hidden, with the operation's own last slice after it, or the operation after
    the visible part of its first slice's copy, whichever is longer. A table's copy is added; Vela hides it only if no weights are
    buffered. Source: Vela 5.2.0 ``EstimateFullOpPerformance``.
    """
    weights = op.weights
    buffered = weights is not None and weights.staging is not None
    if weights is not None and weights.staging is not None:
        first = copy_cycles(weights.home, weights.staging, weights.first_transfer_bytes)
        npu = max(weights.full_transfer_cycles - slack + own_slack, npu + max(first - slack, 0))
    if op.lut is None:
        return npu
    table = copy_cycles(op.lut.home, SHRAM, op.lut.size)
    return npu + (table if buffered else max(table - slack, 0))


def estimate_network(operations: Iterable[EstimatedOperation | None], accelerator: Accelerator) -> Iterator[VelaEstimate | None]:
    """Estimate of each operation in schedule order; None stands for one that Vela runs on the CPU or that is not described."""
    slack = 0
    for op in operations:
        if op is None:
            slack = 0
            yield None
            continue
        cycles, traffic, own_slack = estimate_cycles(op, accelerator), estimate_traffic(op), slack_cycles(op, accelerator)
        npu = with_transfers(op, cycles.npu, own_slack, slack)
        yield VelaEstimate(cycles, traffic, npu, max(npu, *traffic.total_cycles.values()))
        slack = own_slack
