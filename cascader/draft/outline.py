"""Outlines: everything of a draft that its groups decide. Addresses and copies turn an outline into a draft."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from msgspec import Struct

from cascader.draft.draft import ADDRESS, BUFFER, GROUP, JOB, OUTSIDE, PLACE, SIZE, WHOLE, Draft, Lines, table
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers
from cascader.plan.depth_first import Group, JobTable
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up


class GroupOutline(Struct, frozen=True, eq=False):
    """The tables of a draft of some groups, with tensors without addresses; ``stores`` are the indices of their buffers."""

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


class Outlines:
    """Makes the outlines of one graph; ``homes`` are the addresses of tensors outside the arena, 0 of all others.

    A buffer that holds all rows does not roll. Buffers are numbered in the order of their birth, and tensors of one buffer in the order of
    their production.
    """

    def __init__(self, graph: RowGraph, homes: Sequence[int] = ()) -> None:
        self._graph = graph
        self._rows = np.array([part.rows for part in graph.parts], dtype=np.int64)
        self._is_atomic = np.array([part.atomic for part in graph.parts], dtype=np.bool_)
        self._there = [tensor.rows if tensor.kind.is_there_at_first else 0 for tensor in graph.tensors]
        self._row_bytes = [tensor.row_bytes for tensor in graph.tensors]
        self._places = np.zeros((len(graph.tensors), PLACE), dtype=np.int64)
        self._places[:, BUFFER] = OUTSIDE
        self._places[:, ADDRESS] = homes or 0
        self._written = cache(self._rows_written)

    def of(self, groups: Sequence[Group], jobs: JobTable, stores: Buffers) -> GroupOutline:
        """The outline of the jobs of some groups, with their tensors in buffers."""
        places, tensors, found = self._places.copy(), list[int](), list[int]()
        for number, (store, family, line) in enumerate(self._buffers(jobs, stores)):
            for rank, tensor in enumerate(family):
                places[tensor, ADDRESS + 1 :] = (*line, number, rank)
            tensors += family
            found += [store] * len(family)
        numbers = np.array(tensors, dtype=np.int64), np.array(found, dtype=np.int64)
        return GroupOutline(table(groups, GROUP), self._jobs(jobs).tobytes(), places, *numbers)

    def _jobs(self, jobs: JobTable) -> Lines:
        found = np.zeros((len(jobs), JOB), dtype=np.int64)
        found[:, :3] = jobs
        found[self._is_atomic[jobs[:, 0]] | ((jobs[:, 1] == 0) & (jobs[:, 2] == self._rows[jobs[:, 0]])), 1:3] = WHOLE
        return found

    def _rows_written(self, part: int, end: int) -> list[tuple[int, int]]:
        """The results of a part's rows up to ``end``, each with its rows by then."""
        sizes = [(tensor, self._graph.tensors[tensor].rows) for tensor in self._graph.parts[part].outputs]
        return [(tensor, min(rows, self._graph.parts[part].written(at, 0, end, rows)[1])) for at, (tensor, rows) in enumerate(sizes)]

    def _buffers(self, jobs: JobTable, stores: Buffers) -> list[tuple[int, list[int], tuple[int, ...]]]:
        """Each buffer by its birth: its number, its tensors, rows and bytes of a row if it rolls, bytes, first and last job."""
        made, makers = self._there.copy(), [-1] * len(self._there)
        for part, end in dict(jobs[:, ::2].tolist()).items():
            for tensor, rows in self._written(part, end):
                made[tensor], makers[tensor] = max(made[tensor], rows), max(makers[tensor], part)
        starts, ends = stores.extents.starts.tolist(), stores.extents.ends.tolist()
        found = []
        for number, (family, rows) in enumerate(zip(stores.tensors, stores.rows, strict=True)):
            tensors = sorted(family, key=makers.__getitem__)
            row_bytes = self._row_bytes[tensors[0]]
            if rows * row_bytes:  # The home of a tensor without bytes is not the arena.
                rolled = (rows, row_bytes) if rows < max(made[tensor] for tensor in family) else (0, 0)
                found.append((number, tensors, (*rolled, rows * row_bytes, starts[number], ends[number])))
        return sorted(found, key=lambda one: (one[2][3], one[1][0]))
