"""The lower bound of bytes: no schedule of a form needs fewer, with any groups, stripes and addresses.

A job finds its input rows in the arena. It puts its output rows next to them, or over the rows of an operand. The network's inputs are
whole before the first job and its outputs whole after the last one.
"""

from __future__ import annotations

from cascader.ethosu.search.floor import Floor, job_floor
from cascader.graph.row_graph import RowPart
from cascader.plan.depth_first import DepthFirstScheduler


def _read(scheduler: DepthFirstScheduler, part: RowPart, start: int, end: int) -> int:
    """Bytes that rows ``start`` to ``end`` of a part read; for a tensor that is read twice, the larger span."""
    rows: dict[int, int] = {}
    for tensor, propagator in part.inputs:
        first, last = propagator.demand(start, end)
        rows[tensor] = max(rows.get(tensor, 0), last - first)
    return sum(count * scheduler.graph.tensors[tensor].row_bytes for tensor, count in rows.items())


def job_bytes(scheduler: DepthFirstScheduler, number: int) -> int:
    """Bytes that one job of a part reads and writes at least: the job that makes the last needed row, whatever came before it.

    A part that may overwrite an operand needs no bytes for its result. The bound is unknown for a part whose rows are scattered in its
    outputs.
    """
    part, needed = scheduler.graph.parts[number], scheduler.needed[number]
    start = 0 if part.atomic else part.border_until(needed - 1)
    made = 0
    if part.in_place is None and not part.maps:
        height = needed - start
        made = sum(height * scheduler.graph.tensors[tensor].row_bytes for tensor in part.outputs)
    return _read(scheduler, part, start, needed) + made


def least_floor(scheduler: DepthFirstScheduler) -> Floor:
    """Bytes of the arena that every schedule of a row graph takes, with the tensors that take them."""
    graph = scheduler.graph
    ends = (
        ("inputs", [tensor for tensor in graph.tensors if tensor.kind.is_there_at_first]),
        ("outputs", [tensor for tensor in graph.tensors if tensor.kind.stays_to_the_end]),
    )
    floors = [
        Floor(sum(one.size for one in tensors), what, tuple(one.name for one in sorted(tensors, key=lambda one: -one.size)))
        for what, tensors in ends
    ]
    needs = [job_bytes(scheduler, number) for number in range(len(graph.parts))]
    largest = max(range(len(needs)), key=needs.__getitem__)
    return max(*floors, job_floor(graph, largest, needs[largest]), key=lambda one: one.bytes)


def least_bytes(scheduler: DepthFirstScheduler) -> int:
    """Bytes of the arena that every schedule of a row graph takes."""
    return least_floor(scheduler).bytes
