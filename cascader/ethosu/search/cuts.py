"""Lower bounds of cycles for an arena of a given size: what must be done before the first job of some parts, and what is left then.

A cut parts a row graph's parts, in their order, into those before it and those behind it. Let the first job of a part behind it be handed
to the NPU at cycle t. Four facts hold for every schedule of the graph, whatever its groups, stripes, blocks, copies and addresses:

- Rows that this job needs, and those that they need in turn, have been made. Kernels are queued ``max_outstanding_kernels`` at a time, so
  that all but so many less one of the jobs before are done: of each unit's work before the cut all is done but that of the largest parts.
- No unit has worked for a part behind the cut. Of these parts' constants those are read that lie in the arena as copies, which have no
  more room than the arena less the rows that the job reads.
- So from one cut to the next each unit has its work for what lies between, and the constants' port the bytes that had no room.
- What is behind the last cut is all left, but for as many bytes of constants.

Times from cut to cut add up; the longest way over any cuts is the bound. It falls as the arena grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt

from cascader.ethosu.network.network import CONSTANTS, EthosuPart, Network, ethosu_part
from cascader.ethosu.search.bound import Pace, demand, least_cycles
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters

Numbers = npt.NDArray[np.int64]

CUTS = 48
"""Most cuts that are looked at, evenly spaced over the parts: more of them take longer and gain little."""


@dataclass(frozen=True, slots=True, eq=False)
class CycleBound:
    """Lower bound of the cycles of all schedules of a form, for any arena.

    Row i and column j of ``work`` (cycles of the busiest unit) and ``weights`` (bytes of constants) are of what lies between cuts i and j
    and is done at cut j; the first cut is before all parts, and the last column is behind them. ``held`` are the bytes that the first job
    behind a cut reads. ``anyhow`` are the cycles that no arena saves, ``pace`` is that of the constants' memory.
    """

    work: Numbers
    weights: Numbers
    held: Numbers
    pace: Pace
    anyhow: int

    def at(self, arena: int | None) -> int:
        """The bound for an arena of so many bytes (None: of any number)."""
        cuts = len(self.held)
        # Before the first cut nothing is copied.
        room = np.maximum(0, (1 << 60 if arena is None else arena) - self.held) * (np.arange(cuts) > 0)
        left = np.maximum(0, self.weights - room[:, None]).ravel().tolist()
        moved = np.array([self.pace.cycles(count, 2) for count in left], dtype=np.int64).reshape(self.weights.shape)
        spans, reached = np.maximum(self.work, moved), np.zeros(cuts + 1, dtype=np.int64)
        for cut in range(1, cuts + 1):
            reached[cut] = (reached[:cut] + spans[:cut, cut]).max()
        return max(self.anyhow, int(reached[-1]))


class _Cuts:
    """The cuts of one form."""

    def __init__(self, network: Network, scheduler: DepthFirstScheduler, accelerator: str, timing: TimingParameters) -> None:
        device = find_accelerator(accelerator)
        self._scheduler = scheduler
        self._late = device.max_outstanding_kernels - 1
        self._rows = [part.rows for part in scheduler.graph.parts]
        payloads = [ethosu_part(part) for part in network.graph.parts]
        asked = [None if payload is None else demand(payload, Fraction(1), device, timing) for payload in payloads]
        self._units = [[Fraction(0) if one is None else getattr(one, unit) for one in asked] for unit in ("macs", "output")]
        self._streams = [_streams(network, payload) for payload in payloads]
        count = len(self._rows)
        step = max(1, -(-count // CUTS))
        self.places = range(0, count, step)

    def first_asks(self, cut: int) -> list[dict[int, int]]:
        """For each part that may be the first behind a cut the rows that its first job needs of the parts before; each need once."""
        found: list[dict[int, int]] = []
        for part in range(cut, len(self._rows)):
            asks = self._asks(part, 1)
            if all(producer < cut for producer in asks) and asks not in found:
                found.append(asks)
                if not asks:
                    break
        return found

    def _asks(self, part: int, rows: int) -> dict[int, int]:
        """Rows of other parts that the first rows of a part need, by part."""
        facts, asks = self._scheduler.graph.parts[part], dict[int, int]()
        until = facts.rows if facts.atomic else rows
        for tensor, propagator in facts.inputs:
            for producer, made in self._scheduler.rows_behind(tensor, propagator.demand(0, until)[1]):
                if producer != part and made > 0:
                    asks[producer] = max(made, asks.get(producer, 0))
        return asks

    def _bytes_read(self, part: int) -> int:
        """Bytes that a part's first job reads."""
        facts, tensors = self._scheduler.graph.parts[part], self._scheduler.graph.tensors
        rows: dict[int, int] = {}
        for tensor, propagator in facts.inputs:
            first, last = propagator.demand(0, facts.rows if facts.atomic else 1)
            rows[tensor] = max(rows.get(tensor, 0), last - first)
        return sum(count * tensors[tensor].row_bytes for tensor, count in rows.items())

    def held(self, cut: int) -> int:
        """Bytes that are read by the first job behind a cut, whichever part it is of."""
        firsts = (part for part in range(cut, len(self._rows)) if all(producer < cut for producer in self._asks(part, 1)))
        return min(map(self._bytes_read, firsts), default=0)

    def needed(self, cut: int) -> list[int]:
        """Rows that each part before a cut has made at least when the first job behind it begins."""
        ways = [self._behind(cut, asks) for asks in self.first_asks(cut)]
        return [min(column) for column in zip(*ways, strict=True)]

    def _behind(self, cut: int, asks: dict[int, int]) -> list[int]:
        rows = [asks.get(part, 0) for part in range(cut)]
        for part in range(cut - 1, -1, -1):
            if rows[part]:
                for producer, made in self._asks(part, rows[part]).items():
                    if producer < part:
                        rows[producer] = max(rows[producer], made)
        return rows

    def done(self, begin: int, rows: Sequence[int], late: int) -> tuple[int, int]:
        """Cycles of the busiest unit, and bytes of constants, of so many ``rows`` of the parts from ``begin`` on but ``late`` of them."""
        parts = range(begin, len(rows))
        spent = [[floor(unit[part] * rows[part] / self._rows[part]) for part in parts if rows[part]] for unit in self._units]
        streams: dict[bytes, int] = {}
        for part in parts:
            if rows[part]:
                streams |= {content: len(content) for content in self._streams[part]}
        by_part = [sum(map(len, self._streams[part])) for part in parts]
        return max(sum(cycles) - _largest(cycles, late) for cycles in spent), max(0, sum(streams.values()) - _largest(by_part, late))

    def table(self) -> tuple[Numbers, Numbers, Numbers]:
        """Work, weights and held bytes, as a bound has them."""
        cuts = len(self.places)
        work, weights = (np.zeros((cuts, cuts + 1), dtype=np.int64) for _ in range(2))
        for column, cut in enumerate((*self.places, None)):
            rows = list(self._scheduler.needed) if cut is None else self.needed(cut)
            for row, begin in enumerate(self.places[:column]):
                work[row, column], weights[row, column] = self.done(begin, rows, 0 if cut is None else self._late)
        held = np.array([self.held(cut) for cut in self.places], dtype=np.int64)
        return work, weights, held


def _largest(values: Sequence[int], count: int) -> int:
    """Sum of the ``count`` largest values."""
    return sum(sorted(values)[len(values) - count :]) if count else 0


def _streams(network: Network, payload: EthosuPart | None) -> tuple[bytes, ...]:
    """The distinct weight streams of a part."""
    spans = () if payload is None else payload.operation.weights
    return tuple(dict.fromkeys(network.constants[span.start : span.end] for span in spans if span.region == CONSTANTS))


def cycle_bound(
    network: Network, scheduler: DepthFirstScheduler, accelerator: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING
) -> CycleBound:
    """The bound of a network in this form; ``scheduler`` is that of its row graph."""
    pace = Pace.of(system.ports[system.port_of(CONSTANTS)])
    anyhow = least_cycles(network, scheduler, accelerator, system, timing)
    return CycleBound(*_Cuts(network, scheduler, accelerator, timing).table(), pace, anyhow)
