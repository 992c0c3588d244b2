"""The draft of a Schedule, which a search never needs: it makes Schedules of drafts."""

from __future__ import annotations

from cascader.draft.draft import ADDRESS, BUFFER, COPY, JOB, OUTSIDE, PLACE, WHOLE, Draft, table
from cascader.ethosu.job.schedule import Schedule
from npu_model.shapes import Shape3D


def sizes(block: Shape3D | None) -> tuple[int, int, int]:
    """Height, width and depth of a block, 0 where there is none."""
    return (block.height, block.width, block.depth) if block is not None else (0, 0, 0)


def draft_of(schedule: Schedule) -> Draft:
    """The draft of a Schedule, of which no groups and no expected cycles are known."""
    parts = {part.name: number for number, part in enumerate(schedule.network.graph.parts)}
    tensors = {tensor.name: number for number, tensor in enumerate(schedule.network.placed_tensors)}
    places = [[0] * BUFFER + [OUTSIDE, 0] for _ in tensors]
    for home in schedule.network.homes:
        places[tensors[home.tensor]][ADDRESS] = home.address
    for number, one in enumerate(schedule.buffers):
        rolled = (one.rows, one.row_bytes) if one.rows else (0, 0)
        for rank, name in enumerate(one.tensors):
            places[tensors[name]] = [one.address, *rolled, one.size, one.start, one.end, number, rank]
    jobs = [(parts[job.part], *(job.rows or (WHOLE, WHOLE)), *sizes(job.block)) for job in schedule.jobs]
    copies = [
        (copy.step, copy.address, parts[copy.part], parts[reader])
        for copy in sorted(schedule.copies, key=lambda one: one.step)
        for reader in copy.readers
    ]
    return Draft(b"", table(jobs, JOB), table(places, PLACE), table(copies, COPY), schedule.arena_size, 0)
