"""One arena: a schedule whose tensors with other homes are moved to bytes after the arena, for targets with only one memory."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule, arena_extent
from cascader.ethosu.network.homes import in_arena
from cascader.plan.jobs import Buffer
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


def in_one_arena(schedule: Schedule) -> Schedule:
    """The schedule with a whole buffer after its arena for each tensor with another home; the arena grows by them.

    The schedule is unchanged if it has no such tensor. Jobs, other buffers and copies stay the same, so facts about their order and
    addresses hold for both schedules.
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
