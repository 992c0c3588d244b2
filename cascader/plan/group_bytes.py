"""Group bytes: the memory that part groups need, for any neighbouring groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cascader.allocate.extents import live_bytes
from cascader.plan.buffers import storages
from cascader.plan.depth_first import DepthFirstScheduler, Group
from npu_model.native import native

Steps = npt.NDArray[np.int64]
_NATIVE = native("cascader")


def group_live(scheduler: DepthFirstScheduler, group: Group, *, in_place: bool) -> Steps:
    """Bytes of tensors that are live at each job of a group, including those that pass by it.

    The parts before the group are done, each in one job, and the parts after it are still to come.
    """
    parts, table = len(scheduler.graph.parts), scheduler.table(group)
    before, behind = range(group.first), range(group.last + 1, parts)
    done, to_come = ([(part, 0, scheduler.needed[part]) for part in some] for some in (before, behind))
    jobs = np.concatenate([np.array(some, dtype=np.int64).reshape(-1, 3) for some in (done, table, to_come)])
    groups = [Group(0, group.first - 1, 1), group, Group(group.last + 1, parts - 1, 1)]
    stores = storages(scheduler, jobs, groups, in_place=in_place)
    return live_bytes([store.extent for store in stores], len(jobs))[len(done) : len(done) + len(table)]


def group_bytes(scheduler: DepthFirstScheduler, group: Group, *, in_place: bool) -> int:
    """Most bytes that are live at one job of a group."""
    if _NATIVE is None:
        return int(group_live(scheduler, group, in_place=in_place).max())
    how = np.array([group.first, group.last, in_place], dtype=np.int64)
    return int(np.frombuffer(_NATIVE.group_bytes(scheduler.flat, scheduler.table(group), how), dtype=np.int64)[-1])
