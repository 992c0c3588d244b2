"""Outlines: all of a draft that its groups decide. Addresses and copies make it a draft."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from cascader.draft.draft import ADDRESS, BUFFER, GROUP, JOB, OUTSIDE, PLACE, SIZE, WHOLE, Draft, Lines, table
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers
from cascader.plan.depth_first import Group, JobTable
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


class GroupOutline(Struct, frozen=True, eq=False):
    """The tables of some groups' draft, its tensors without addresses; ``stores`` are the places of their buffers among all."""

    groups: bytes
    jobs: bytes
    places: Lines
    tensors: Lines
    stores: Lines

    def draft(self, addresses: Sequence[int], copies: Lines, end: int, cycles: int, *, shares: bool = False) -> Draft:
        """The draft with buffers at some addresses and ``copies``, which end at byte ``end``."""
        places = self.places.copy()
        places[self.tensors, ADDRESS] = np.array(addresses, dtype=np.int64)[self.stores]
        ends = places[self.tensors, ADDRESS] + places[self.tensors, SIZE]
        memory = round_up(int(max(end, ends.max(initial=0))), ALIGNMENT)
        return Draft(self.groups, self.jobs, places.tobytes(), copies.tobytes(), memory, cycles, shares)


def group_outline(graph: RowGraph, groups: Sequence[Group], jobs: JobTable, stores: Buffers, homes: Sequence[int] = ()) -> GroupOutline:
    """The outline of ``jobs`` whose tensors are in buffers; ``homes`` are the addresses of tensors outside the arena, 0 of all others.

    A buffer that holds all rows that are made does not roll. Buffers are numbered in the order of their birth, and the tensors that share
    one in the order in which they are made.
    """
    places = np.zeros((len(graph.tensors), PLACE), dtype=np.int64)
    places[:, BUFFER] = OUTSIDE
    places[:, ADDRESS] = homes or 0
    tensors, found = list[int](), list[int]()
    for number, (store, family, line) in enumerate(_buffers(graph, jobs, stores)):
        for rank, tensor in enumerate(family):
            places[tensor, ADDRESS + 1 :] = (*line, number, rank)
        tensors += family
        found += [store] * len(family)
    numbers = np.array(tensors, dtype=np.int64), np.array(found, dtype=np.int64)
    return GroupOutline(table(groups, GROUP), _jobs(graph, jobs).tobytes(), places, *numbers)


def _jobs(graph: RowGraph, jobs: JobTable) -> Lines:
    rows = np.array([part.rows for part in graph.parts], dtype=np.int64)[jobs[:, 0]]
    is_whole = np.array([part.atomic for part in graph.parts], dtype=np.bool_)[jobs[:, 0]]
    found = np.zeros((len(jobs), JOB), dtype=np.int64)
    found[:, :3] = jobs
    found[is_whole | ((jobs[:, 1] == 0) & (jobs[:, 2] == rows)), 1:3] = WHOLE
    return found


def _buffers(graph: RowGraph, jobs: JobTable, stores: Buffers) -> list[tuple[int, list[int], tuple[int, ...]]]:
    """The place of each buffer among all, its tensors, and their rows, bytes of a row, bytes, and first and last job, by their birth."""
    made, makers = [tensor.rows if tensor.kind.is_there_at_first else 0 for tensor in graph.tensors], [-1] * len(graph.tensors)
    for index, end in dict(jobs[:, ::2].tolist()).items():
        for output, tensor in enumerate(graph.parts[index].outputs):
            rows = graph.tensors[tensor].rows
            made[tensor] = max(made[tensor], min(rows, graph.parts[index].written(output, 0, end, rows)[1]))
            makers[tensor] = max(makers[tensor], index)
    starts, ends = stores.extents.starts.tolist(), stores.extents.ends.tolist()
    found = []
    for number, (family, rows) in enumerate(zip(stores.tensors, stores.rows, strict=True)):
        tensors = sorted(family, key=makers.__getitem__)
        row_bytes = graph.tensors[tensors[0]].row_bytes
        if rows * row_bytes:  # the home of one without bytes is not the arena
            rolled = (rows, row_bytes) if rows < max(made[tensor] for tensor in family) else (0, 0)
            found.append((number, tensors, (*rolled, rows * row_bytes, starts[number], ends[number])))
    return sorted(found, key=lambda one: (one[2][3], one[1][0]))
