"""Row by row: who needs which row and when each is live, by sets of rows; shares no code with the cascader."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from cascader.graph.cascader_graph import TensorKind
from cascader.graph.row_graph import RowGraph, RowPart
from cascader.graph.row_maps import RowMap, RowPropagator
from cascader.plan.depth_first import Group, StripeJob

PRESENT = (TensorKind.INPUT, TensorKind.VARIABLE)
KEPT = (TensorKind.OUTPUT, TensorKind.VARIABLE)


def touched(at: RowMap | None, rows: set[int]) -> set[int]:
    """Rows of the tensor that some rows of a view have bytes in, byte by byte."""
    if at is None:
        return rows
    return {byte // at.unit for row in rows for byte in range(at.offset + row * at.step, at.offset + row * at.step + at.reach)}


def rows_behind(propagator: RowPropagator, row: int) -> set[int]:
    """Rows of the tensor that one output row needs, tap by tap."""
    if propagator.whole:
        return touched(propagator.at, set(range(propagator.rows)))
    taps = (row * propagator.stride - propagator.pad + tap for tap in range(propagator.taps))
    return touched(propagator.at, {tap // propagator.upscale for tap in taps if 0 <= tap < propagator.rows * propagator.upscale})


def rows_read(part: RowPart, propagator: RowPropagator, start: int, end: int) -> set[int]:
    """Rows of the tensor that a job reads."""
    if part.atomic:
        return touched(propagator.at, set(range(propagator.rows)))
    return {source for row in range(start, end) for source in rows_behind(propagator, row)}


def rows_made(graph: RowGraph, part: RowPart, tensor: int, start: int, end: int) -> set[int]:
    """Rows of a tensor that some rows of a part lie in."""
    at = part.maps[part.outputs.index(tensor)] if part.maps else None
    if at is not None:
        return touched(at, set(range(start, end)))
    return set(range(graph.tensors[tensor].rows)) if part.atomic else set(range(start, end))


def rows_written(graph: RowGraph, tensor: int, job: StripeJob) -> set[int]:
    """Rows of the tensor that a job writes."""
    return rows_made(graph, graph.parts[job.part], tensor, job.start, job.end)


def borders(part: RowPart) -> list[int]:
    """Rows at which stripes may begin or end."""
    return [0, *(row for row in range(1, part.rows) if (row - part.phase) % part.align == 0), part.rows]


def rows_for(graph: RowGraph, part: RowPart, tensor: int, wanted: set[int]) -> int:
    """Rows 0 to n that a part must make so that no row up to the highest of those wanted of a tensor still changes."""
    last = max(wanted, default=-1)
    return max((row + 1 for row in range(part.rows) if min(rows_made(graph, part, tensor, row, row + 1)) <= last), default=0)


def needed_rows(graph: RowGraph) -> list[int]:
    """Rows 0 to n that each part must make: up to the highest that a reader needs, all if the user or nobody reads it."""
    needed = [0] * len(graph.parts)
    for index in reversed(range(len(graph.parts))):
        part = graph.parts[index]
        rows, read = 1, False
        for later in range(index + 1, len(graph.parts)):
            for tensor, propagator in graph.parts[later].inputs:
                if tensor in part.outputs:
                    read = True
                    wanted = rows_read(graph.parts[later], propagator, 0, needed[later])
                    rows = max(rows, rows_for(graph, part, tensor, wanted))
        everything = part.atomic or not read or any(graph.tensors[tensor].kind in KEPT for tensor in part.outputs)
        needed[index] = part.rows if everything else min(border for border in borders(part) if border >= rows)
    return needed


Life = dict[int, tuple[int, int]]
"""First and last step at which each row is live."""


def lives(graph: RowGraph, jobs: Sequence[StripeJob]) -> list[Life]:
    """For every tensor, its rows' lives: from the first write to the last use, inputs from step 0, what is kept to the end."""
    found: list[Life] = [{} for _ in graph.tensors]
    for step, job in enumerate(jobs):
        part = graph.parts[job.part]
        for tensor, propagator in part.inputs:
            for row in rows_read(part, propagator, job.start, job.end):
                found[tensor][row] = (found[tensor].get(row, (step, 0))[0], step)
        for tensor in part.outputs:
            for row in rows_written(graph, tensor, job):
                found[tensor][row] = (found[tensor].get(row, (step, 0))[0], step)
    for life, tensor in zip(found, graph.tensors, strict=True):
        present = range(tensor.rows) if tensor.kind in PRESENT else ()
        life.update({row: (0, life.get(row, (0, 0))[1]) for row in present})
        life.update({row: (first, len(jobs) - 1) for row, (first, _) in life.items() if tensor.kind in KEPT})
    return found


def span(graph: RowGraph, life: Life, tensor: int, written: dict[int, int], step: int) -> tuple[int, int] | None:
    """From the lowest row that is still to be used to the highest that is made so far; None if none is to be used, or made."""
    used = [row for row, (_, last) in life.items() if step <= last]
    live = used if any(first <= step for first, _ in life.values()) else []
    if not live:
        return None
    present = graph.tensors[tensor].kind in PRESENT
    return min(live), graph.tensors[tensor].rows if present else 1 + max(row for row, first in written.items() if first <= step)


def first_writes(graph: RowGraph, jobs: Sequence[StripeJob]) -> list[dict[int, int]]:
    """For every tensor, the step at which each row is first written."""
    found: list[dict[int, int]] = [{} for _ in graph.tensors]
    for step, job in enumerate(jobs):
        for tensor in graph.parts[job.part].outputs:
            for row in rows_written(graph, tensor, job):
                found[tensor].setdefault(row, step)
    return found


def families(graph: RowGraph, *, in_place: bool) -> list[set[int]]:
    """Tensors that share a buffer: a result with the operand that it overwrites."""
    groups = [{tensor} for tensor in range(len(graph.tensors))]
    for part in graph.parts if in_place else ():
        if part.in_place is not None:
            mine = [group for group in groups if group & {part.in_place, part.outputs[0]}]
            groups = [group for group in groups if group not in mine] + [set().union(*mine)]
    return groups


def stays_in_a_group(graph: RowGraph, groups: Sequence[Group], family: set[int]) -> bool:
    """Whether only parts of one group use some tensors, and no user of the network does."""
    users = [i for i, part in enumerate(graph.parts) if family & {*part.outputs, *(tensor for tensor, _ in part.inputs)}]
    internal = all(graph.tensors[tensor].kind is TensorKind.INTERMEDIATE for tensor in family)
    return internal and any(all(group.first <= user <= group.last for user in users) for group in groups)


def places(held: Sequence[tuple[int, int]], step: int, roll: int) -> int:
    """Places in use at a step of a buffer that holds rows ``held[i]`` at step i: all rows, or of a rolling one as many as it can hold.

    A rolling one has a multiple of ``roll`` places. It holds all rows so far until it is full, and what is live once no live rows wrap
    around its end any more.
    """
    most, top = max(high - low for low, high in held), max(high for _, high in held)
    most = min(top, next(rows for rows in range(most, most + roll) if rows % roll == 0))
    low, high = held[step]
    if most == top or low == high:
        return high - low
    later = any(b > a and a // most != (b - 1) // most for a, b in held[step:])
    so_far = max(b for _, b in held[: step + 1])
    return min(most, so_far) if later or so_far <= most else high - low


def bytes_held(graph: RowGraph, jobs: Sequence[StripeJob], groups: Sequence[Group], *, in_place: bool) -> list[int]:
    """Bytes that all buffers hold at every step: the spans of live rows, of rolling buffers the places in use."""
    life, written = lives(graph, jobs), first_writes(graph, jobs)
    total = [0] * len(jobs)
    for family in families(graph, in_place=in_place):
        held: list[tuple[int, int]] = []
        for step in range(len(jobs)):
            spans = [s for tensor in family if (s := span(graph, life[tensor], tensor, written[tensor], step)) is not None]
            held.append((min(s[0] for s in spans), max(s[1] for s in spans)) if spans else (0, 0))
        roll = lcm(*(graph.tensors[tensor].roll for tensor in family))
        rolls = stays_in_a_group(graph, groups, family)
        for step, (low, high) in enumerate(held):
            total[step] += (places(held, step, roll) if rolls else high - low) * graph.tensors[min(family)].row_bytes
    return total


def is_cropped(graph: RowGraph) -> bool:
    """Whether a part reads none of a tensor's first rows."""
    reads = ((part, propagator) for part in graph.parts for _, propagator in part.inputs)
    return any(0 not in rows_read(part, propagator, 0, part.rows) for part, propagator in reads)
