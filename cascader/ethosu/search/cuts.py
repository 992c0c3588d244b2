"""Lower bounds of cycles for an arena of a given size: what must be done before the first job of some parts, and what is left then.

A cut parts a row graph's parts, in their order, into those before it and those behind it. Let the first job of a part behind it be handed
to the NPU at cycle t. Four facts hold for every schedule of the graph, whatever its groups, stripes, blocks, copies and addresses:

- Rows that this job needs, and those that they need in turn, have been made. At most ``max_outstanding_kernels`` kernels are queued, so
  that at most one fewer of the earlier jobs are unfinished. Each unit has therefore done its work before the cut, except for the work of
  the largest parts.
- No unit has worked for a part behind the cut. The constants of these parts may have been read into the arena as copies. Copies have at
  most the room of the arena less the rows that the job reads.
- So from one cut to the next each unit has its work for what lies between, and the constants' port the bytes that had no room.
- All work after the last cut remains, except for that many bytes of constants.

Times from cut to cut add up; the longest way over any cuts is the bound. It falls as the arena grows.

Further bounds come from constants that cannot stay. A job reads all weights of its part. It reads them from home unless a copy is in the
arena while it runs, next to its input and output rows. If a part's weights do not fit next to a single row, every job reads them from home.
The number of jobs follows from the rows that fit into that arena. All of that passes the constants' port.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.ethosu.network.network import CONSTANTS, Network, ethosu_part
from cascader.ethosu.search.bound import Pace, constant_bytes, demand, least_cycles, plane_ublocks, streams
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters

Numbers = npt.NDArray[np.int64]

CUTS = 48
"""The most cuts that are examined, evenly spaced over the parts: more of them take longer and gain little."""


_DOWN = 1 - 2.0**-40

_ACCUMULATOR_BYTES = 4
_BANK_BYTES = 1024
"""Bytes of a bank of the shared buffer (Vela)."""


class Repeated(Struct, frozen=True):
    """A part whose weights may be read again: their bytes, and how many jobs or blocks read them in any arena.

    ``held[h - 1]`` is the bytes of the arena that a job of h rows reads and writes at least; a job has at most ``most`` rows.
    """

    weights: int
    held: tuple[int, ...]
    most: int
    blocks: int

    def again(self, arena: int) -> int:
        """Bytes that are read from home again, after the first time, in an arena of the given bytes.

        >>> part = Repeated(weights=100, held=(30, 50, 70, 90), most=4, blocks=1)
        >>> part.again(130), part.again(129), part.again(60), part.again(49)
        (0, 0, 100, 300)
        """
        if self.held[0] + self.weights <= arena:
            return 0
        rows = min(self.most, bisect_right(self.held, arena)) or 1
        return (max(ceil_div(len(self.held), rows), self.blocks) - 1) * self.weights


class CycleBound(Struct, frozen=True):
    """Lower bound of the cycles of all schedules of a form, for any arena.

    Row i and column j of ``work`` (cycles of the busiest unit) and ``weights`` (bytes of constants) count what lies between cuts i and j
    and is done at cut j. The first cut is before all parts, and the last column is after all parts. ``held`` are the bytes that the first
    job behind a cut reads. ``anyhow`` are the cycles that no arena saves. ``pace`` is the pace of the constants' memory. Its gate may cut
    off a part of the first period of a span unless it ``slides``. ``once`` are the bytes of all constants, ``repeated`` the parts that may
    read theirs again.
    """

    work: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    held: tuple[int, ...]
    pace: Pace
    anyhow: int
    slides: bool = True
    once: int = 0
    repeated: tuple[Repeated, ...] = ()

    def _moved(self, arena: int) -> int:
        """Cycles in which the constants that are read in an arena of the given bytes pass."""
        return self.pace.moving(self.once + sum(part.again(arena) for part in self.repeated))

    def at(self, arena: int | None) -> int:
        """The bound for an arena of the given bytes (None: any number)."""
        cuts = len(self.held)
        work, weights, held = (np.array(values, dtype=np.int64) for values in (self.work, self.weights, self.held))
        # Before the first cut nothing is copied.
        room = np.maximum(0, (1 << 60 if arena is None else arena) - held) * (np.arange(cuts) > 0)
        words = np.maximum(0, weights - room[:, None]) // self.pace.word_bytes
        # The last period of a span may be cut off, and the first one too if it began earlier. A ratio is rounded down, as a bound must be.
        gated = np.maximum(0, -(-words // self.pace.capped) - (1 if self.slides else 2)) * self.pace.period
        moved = np.maximum(gated, (words * (float(self.pace.cycles_per_word) * _DOWN)).astype(np.int64))
        spans, reached = np.maximum(work, moved), np.zeros(cuts + 1, dtype=np.int64)
        for cut in range(1, cuts + 1):
            reached[cut] = (reached[:cut] + spans[:cut, cut]).max()
        return max(self.anyhow, int(reached[-1]), 0 if arena is None else self._moved(arena))


class _Cuts:
    """The cuts of one form."""

    def __init__(self, network: Network, scheduler: DepthFirstScheduler, accelerator: str, timing: TimingParameters) -> None:
        device = find_accelerator(accelerator)
        self._scheduler = scheduler
        self._late = device.max_outstanding_kernels - 1
        self._rows = [part.rows for part in scheduler.graph.parts]
        payloads = [ethosu_part(part) for part in network.graph.parts]
        asked = [None if payload is None else demand(payload, Fraction(1), device, timing) for payload in payloads]
        self._units = [[0 if one is None else floor(getattr(one, unit)) for one in asked] for unit in ("macs", "output")]
        self._streams = [() if payload is None else streams(network, payload) for payload in payloads]
        self._known: dict[tuple[int, int], dict[int, int]] = {}
        self._first = [max(self._asks(part, 1), default=-1) for part in range(len(self._rows))]
        self.places = range(0, len(self._rows), -(-len(self._rows) // CUTS) or 1)

    def _firsts(self, cut: int) -> list[int]:
        """The parts that may have the first job after a cut: parts that read no result of others there."""
        return [part for part in range(cut, len(self._rows)) if self._first[part] < cut]

    def _asks(self, part: int, rows: int) -> dict[int, int]:
        """Rows of other parts that the first rows of a part need, by part."""
        if (part, rows) not in self._known:
            facts, asks = self._scheduler.graph.parts[part], dict[int, int]()
            until = facts.rows if facts.atomic else rows
            for tensor, propagator in facts.inputs:
                for producer, made in self._scheduler.rows_behind(tensor, propagator.demand(0, until)[1]):
                    if producer != part and made > 0:
                        asks[producer] = max(made, asks.get(producer, 0))
            self._known[part, rows] = asks
        return self._known[part, rows]

    def _bytes_read(self, part: int) -> int:
        """Bytes that a part's first job reads."""
        facts, tensors = self._scheduler.graph.parts[part], self._scheduler.graph.tensors
        rows: dict[int, int] = {}
        for tensor, propagator in facts.inputs:
            first, last = propagator.demand(0, facts.rows if facts.atomic else 1)
            rows[tensor] = max(rows.get(tensor, 0), last - first)
        return sum(count * tensors[tensor].row_bytes for tensor, count in rows.items())

    def held(self, cut: int) -> int:
        """Bytes that the first job after a cut reads, for any part."""
        return min(map(self._bytes_read, self._firsts(cut)), default=0)

    def needed(self, cut: int) -> list[int]:
        """Rows that each part before a cut has made at least when the first job after it begins, for any part."""
        ways: list[dict[int, int]] = []
        for part in self._firsts(cut):
            asks = self._asks(part, 1)
            if not asks:
                return [0] * cut
            ways += [asks] if asks not in ways else []
        return [min(column) for column in zip(*(self._behind(cut, asks) for asks in ways), strict=True)]

    def _behind(self, cut: int, asks: dict[int, int]) -> list[int]:
        """Rows needed from each part before a cut for some requested rows."""
        rows = [asks.get(part, 0) for part in range(cut)]
        for part in range(cut - 1, -1, -1):
            for producer, made in self._asks(part, rows[part]).items() if rows[part] else ():
                if producer < part:
                    rows[producer] = max(rows[producer], made)
        return rows

    def column(self, rows: Sequence[int], late: int) -> Iterator[tuple[int, int]]:
        """Cycles of the busiest unit, and bytes of constants, for rows of the parts from each cut on, except for ``late`` parts.

        The order is from the last cut before the end of ``rows`` to the first.
        """
        spent: list[list[int]] = [[] for _ in self._units]
        sums, moved = [0] * len(spent), list[int]()
        distinct: dict[bytes, int] = {}
        for part in range(len(rows) - 1, -1, -1):
            if rows[part]:
                for unit, (cycles, some) in enumerate(zip(self._units, spent, strict=True)):
                    some.append(cycles[part] * rows[part] // self._rows[part])
                    sums[unit] += some[-1]
                distinct |= {content: len(content) for content in self._streams[part]}
                moved.append(sum(map(len, self._streams[part])))
            if part in self.places:
                least = [total - _largest(some, late) for total, some in zip(sums, spent, strict=True)]
                yield max(least), max(0, sum(distinct.values()) - _largest(moved, late))

    def table(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Work, weights and held bytes, in the form of a bound."""
        cuts = len(self.places)
        columns: list[list[tuple[int, int]]] = []
        for cut in (*self.places, None):
            rows = list(self._scheduler.needed) if cut is None else self.needed(cut)
            found = list(self.column(rows, 0 if cut is None else self._late))[::-1]
            columns.append(found + [(0, 0)] * (cuts - len(found)))
        work, weights = (tuple(tuple(column[row][which] for column in columns) for row in range(cuts)) for which in range(2))
        return work, weights, tuple(map(self.held, self.places))


def _largest(values: Sequence[int], count: int) -> int:
    """Sum of the ``count`` largest values."""
    if count == 1:
        return max(values, default=0)
    return sum(sorted(values)[max(0, len(values) - count) :]) if count else 0


def _held(scheduler: DepthFirstScheduler, number: int) -> tuple[int, ...]:
    """Bytes that a job of one row, of two rows and so on reads and writes at least, for any rows of a part."""
    part, tensors, needed = scheduler.graph.parts[number], scheduler.graph.tensors, scheduler.needed[number]
    read: dict[int, Numbers] = {}
    for tensor, propagator in part.inputs:
        spans = np.array([propagator.demand(row, row + 1) for row in range(needed)], dtype=np.int64)
        rows = np.array([(spans[height - 1 :, 1] - spans[: needed - height + 1, 0]).min() for height in range(1, needed + 1)])
        read[tensor] = np.maximum(np.maximum(rows, 0), read.get(tensor, np.zeros(needed, dtype=np.int64)))
    held = sum((rows * tensors[tensor].row_bytes for tensor, rows in read.items()), np.zeros(needed, dtype=np.int64))
    if part.in_place is None and not part.maps:
        held = held + np.arange(1, needed + 1) * sum(tensors[tensor].row_bytes for tensor in part.outputs)
    return tuple(np.maximum.accumulate(held).tolist())


def _repeated(network: Network, scheduler: DepthFirstScheduler, device: Accelerator) -> tuple[Repeated, ...]:
    """The parts with weights at home that may be cut."""
    found = []
    for number, (one, part) in enumerate(zip(network.graph.parts, scheduler.graph.parts, strict=True)):
        payload, needed = ethosu_part(one), scheduler.needed[number]
        weights = [span for span in (() if payload is None else payload.operation.weights) if span.region == CONSTANTS]
        if payload is None or not weights or needed < 1:
            continue
        held = _held(scheduler, number)
        if part.atomic:
            held = held[-1:]
        blocks = ceil_div(floor(plane_ublocks(payload, Fraction(needed, part.rows), device)), _most_ublocks(device))
        found.append(Repeated(sum(span.length for span in weights), held, part.most_rows or len(held), blocks))
    return tuple(found)


def _most_ublocks(device: Accelerator) -> int:
    """The most ublocks in the plane of a block: two blocks of 32-bit accumulators, a ublock deep, fit the shared buffer."""
    ublock = device.ofm_ublock
    each = ublock.height * ublock.width * ublock.depth * _ACCUMULATOR_BYTES
    return max(1, device.shram_banks * _BANK_BYTES // (2 * each))


def cycle_bound(
    network: Network, scheduler: DepthFirstScheduler, accelerator: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING
) -> CycleBound:
    """The bound of a network in this form; ``scheduler`` belongs to its row graph."""
    device = find_accelerator(accelerator)
    pace = Pace.of(system.ports[system.port_of(CONSTANTS)], device.port_bytes_per_cycle)
    anyhow = least_cycles(network, scheduler, accelerator, system, timing)
    table = _Cuts(network, scheduler, accelerator, timing).table()
    once = constant_bytes(network, filter(None, map(ethosu_part, network.graph.parts)))
    return CycleBound(*table, pace, anyhow, timing.sliding_cap, once, _repeated(network, scheduler, device))
