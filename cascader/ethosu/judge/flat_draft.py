"""Flat drafts: a schedule's jobs, places and copies as integers, by the numbers of its network's parts and tensors."""

from __future__ import annotations

from array import array

from msgspec import Struct

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Network

JOB, PLACE, COPY = 6, 3, 4
"""Integers of a job (part, first and last row or -1 for all, height, width and depth of its block or 0 for the part's own), of a
tensor's place (address, rows and bytes of a row of a buffer that rolls, or 0), and of a copy for a reader (step, address, part, reader)."""


class FlatDraft(Struct, frozen=True, eq=False):
    """Jobs in their order, the places of all tensors, and copies by their steps: for each copy a line for each part that reads it.

    The line of the part that the copy is named after comes first.
    """

    jobs: array[int]
    places: array[int]
    copies: array[int]


class Numbering:
    """The numbers of a network's parts and tensors."""

    def __init__(self, network: Network) -> None:
        self._parts = {part.name: number for number, part in enumerate(network.graph.parts)}
        self._tensors = {tensor.name: number for number, tensor in enumerate(network.graph.tensors)}
        self._places = array("q", bytes(8 * PLACE * len(self._tensors)))
        for home in network.homes:
            self._places[PLACE * self._tensors[home.tensor]] = home.address

    def part(self, name: str) -> int:
        """The number of a part."""
        return self._parts[name]

    def tensor(self, name: str) -> int:
        """The number of a tensor."""
        return self._tensors[name]

    def flat(self, schedule: Schedule) -> FlatDraft:
        """A schedule of the network as a draft."""
        jobs: list[int] = []
        for job in schedule.jobs:
            block = job.block
            jobs += (self._parts[job.part], *(job.rows or (-1, -1)), *((block.height, block.width, block.depth) if block else (0, 0, 0)))
        places = self._places[:]
        for buffer in schedule.buffers:
            where = array("q", (buffer.address, buffer.rows or 0, buffer.row_bytes if buffer.rows else 0))
            for tensor in buffer.tensors:
                at = PLACE * self._tensors[tensor]
                places[at : at + PLACE] = where
        copies: list[int] = []
        for copy in sorted(schedule.copies, key=lambda one: one.step):
            part = self._parts[copy.part]
            for reader in copy.readers:
                copies += (copy.step, copy.address, part, self._parts[reader])
        return FlatDraft(array("q", jobs), places, array("q", copies))
