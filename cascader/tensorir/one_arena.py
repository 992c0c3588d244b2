"""One arena: a schedule with its homes moved behind the arena, for what knows no other memory."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule, arena_extent
from cascader.ethosu.network.homes import in_arena
from cascader.plan.jobs import Buffer
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def in_one_arena(schedule: Schedule) -> Schedule:
    """The schedule with each tensor that has another home in a whole buffer behind its arena, which grows by them; itself if none has.

    Jobs, other buffers and copies are the same, so that what holds of their order and their addresses holds of both schedules.
    """
    network = schedule.network
    if not network.homes:
        return schedule
    buffers, end = list(schedule.buffers), schedule.arena_size
    for home in network.homes:
        size = network.graph.tensor(home.tensor).size
        buffers.append(Buffer((home.tensor,), end, size, 0, max(len(schedule.jobs), 1)))
        end += round_up(size, ALIGNMENT)
    size = arena_extent(tuple(buffers))
    return replace(schedule, network=in_arena(network), buffers=tuple(buffers), arena_size=size)
