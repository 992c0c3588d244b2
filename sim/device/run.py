"""One run of the NPU: the events at its cycles, from the decoded stream and its replay.

A run also has the number of each PMU event by a cycle, up to all of them at the end. The replay counts work and waits by operation. Here
the counts of an operation come evenly between its issue and its end. Counts that belong to no single operation (the command fetch,
transactions) come evenly over the run. The last cycle has the replay's own counts.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.cost.mac_activity import mac_activity
from npu_model.memory.system import MemorySystem
from npu_model.program import Control, ControlKind, DmaOperation, KernelOperation, Operation, OperationKind, Program, Region, RegionRole
from npu_model.program.moves import moved
from npu_model.timing import TimingParameters
from sim.device.commands import REGIONS, Commands
from sim.events import Cause, Unit
from sim.fast import counted_replay
from sim.replay import OperationReplay, Replay

_Piece = tuple[int, int, int, int]
"""First cycle, last cycle, events between them, and their operation (-1 for none)."""


def _of_operation(operation: OperationReplay, replay: Replay) -> dict[str, int]:
    """Events of one operation, under the names and rules of :meth:`sim.replay.Replay.pmu`."""
    busy, waits, op = operation.busy, operation.waits, operation.op
    found = {
        "AXI0_RD_DATA_BEAT_RECEIVED": operation.beats.axi0_read,
        "AXI0_WR_DATA_BEAT_WRITTEN": operation.beats.axi0_write,
        "AXI1_RD_DATA_BEAT_RECEIVED": operation.beats.axi1_read,
        "MAC_STALLED_BY_IB": waits.get((Unit.MAC, Cause.IB), 0),
        "MAC_STALLED_BY_WD": waits.get((Unit.MAC, Cause.WEIGHTS), 0),
        "MAC_STALLED_BY_ACC": waits.get((Unit.MAC, Cause.ACC), 0),
        "AO_ACTIVE": busy.get(Unit.AO, 0),
        "AO_STALLED_BY_ACC": waits.get((Unit.AO, Cause.ACC), 0),
        "AO_STALLED_BY_OB": waits.get((Unit.AO, Cause.OB), 0),
        "CC_STALLED_ON_BLOCKDEP": waits.get((Unit.IFM, Cause.BLOCKDEP), 0),
        "CC_STALLED_ON_SHRAM_RECONFIG": waits.get((Unit.IFM, Cause.SHRAM), 0),
    }
    if isinstance(op, KernelOperation):
        activity = mac_activity(op, replay.accelerator, replay.timing)
        found |= {"MAC_ACTIVE": activity.active, "MAC_DPU_ACTIVE": activity.dot_products}
        if Unit.MAC in busy:
            held = "MAC_STALLED_BY_WD" if op.kind is OperationKind.CONV_2D else "MAC_STALLED_BY_ACC"
            found[held] += busy[Unit.MAC] - activity.active
    return found


class _Curve:
    """A count that only grows, from pieces in which it grows evenly."""

    def __init__(self, pieces: list[_Piece]) -> None:
        self._pieces = sorted(piece for piece in pieces if piece[2])
        self._starts = [first for first, *_ in self._pieces]

    def at(self, cycle: int, operations: int) -> int:
        """Events of the first ``operations`` from the start to ``cycle``."""
        found = 0
        for first, last, events, index in self._pieces[: bisect_right(self._starts, cycle)]:
            if index >= operations:
                continue
            found += events if cycle >= last else events * (cycle - first) // (last - first)
        return found


class Counts:
    """The number of times that each event of a replay has happened by each cycle."""

    def __init__(self, replay: Replay) -> None:
        self._cycles = replay.cycles
        self._totals = replay.pmu()
        pieces: dict[str, list[_Piece]] = {name: [] for name in self._totals}
        for operation in replay.operations:
            for name, events in _of_operation(operation, replay).items():
                pieces[name].append((operation.issued, operation.finished, events, operation.index))
        for name, total in self._totals.items():
            rest = total - sum(events for _, _, events, _ in pieces[name])
            pieces[name].append((0, self._cycles, rest, -1))
        self._curves = {name: _Curve(found) for name, found in pieces.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The events that are counted."""
        return tuple(self._totals)

    def at(self, name: str, cycle: int, operations: int) -> int:
        """Events of this name and of the first ``operations`` from the start to ``cycle``; 0 for a name without a count."""
        curve = self._curves.get(name)
        return 0 if curve is None else curve.at(min(max(0, cycle), self._cycles), operations)


_PAGE = 4096
"""Regions are replayed from a multiple of this address below their lowest access.

It is a whole number of bursts, so that no transaction changes.
"""

_MOST_CONTENT = 1 << 26
"""Bytes of a region's weights that the replay reads. Beyond them, and in regions that the stream writes, it assumes 8 weights a cycle."""

_MOST_REPLAYS = 16


class DeviceEnding(Enum):
    """Causes that end a run."""

    DONE = "end of the stream"
    PARSE_ERROR = "parse error"
    ABORTED = "bus abort"
    STOPPED = "stop request"


class DeviceStep(Struct, frozen=True):
    """An operation takes effect: its index in the stream, and the cycle of the run."""

    cycle: int
    index: int


class Run(Struct, frozen=True):
    """Timeline of a run of ``commands`` from operation ``first`` on.

    ``reached[i]`` is the cycle at which the command processor reaches operation ``first + i``. ``steps`` are in order of time. A kernel or
    transfer takes effect at its end, but never before an earlier one of the stream.
    """

    commands: Commands
    first: int
    counts: Counts | None
    reached: tuple[int, ...]
    steps: tuple[DeviceStep, ...]
    end: int
    ending: DeviceEnding
    resume: int
    """The operation at which the next start continues."""

    def offset(self, cycle: int) -> int:
        """QREAD: bytes of the commands before the command processor's current one."""
        at = sum(reached <= cycle for reached in self.reached)
        return 4 * sum(self.commands.words[: self.first + at])

    def events(self, name: str, cycle: int) -> int:
        """The number of times that an event has happened by a cycle of the run, in the operations that the run reaches."""
        return 0 if self.counts is None else self.counts.at(name, cycle, self.resume - self.first)

    def stopped_at(self, cycle: int) -> Run:
        """The run with a stop request at ``cycle``: started operations finish, and no others start."""
        started = self.first + sum(reached <= cycle for reached in self.reached)
        if started == len(self.commands.operations):
            return self
        steps = tuple(step for step in self.steps if step.index < started)
        end = max([cycle, *(step.cycle for step in steps)])
        return replace(
            self, reached=self.reached[: started - self.first], steps=steps, end=end, ending=DeviceEnding.STOPPED, resume=started
        )


def timing_program(
    operations: tuple[Operation, ...], words: tuple[int, ...], accelerator_name: str, read: Callable[[int, int, int], bytes | None]
) -> Program:
    """The Program to replay. ``read`` gives bytes of a region (from, length), or None, for weights that no operation writes."""
    accesses = [part for op in operations if isinstance(op, (KernelOperation, DmaOperation)) for part in (*op.reads(), *op.writes())]
    low = {region: min((part.start for part in accesses if part.region == region), default=0) // _PAGE * _PAGE for region in range(REGIONS)}
    high = {region: max((part.end for part in accesses if part.region == region), default=0) for region in range(REGIONS)}
    written = {op.ofm.region for op in operations if isinstance(op, KernelOperation)}
    written |= {op.destination_region for op in operations if isinstance(op, DmaOperation) and not op.to_shram}
    streams = {part.region for op in operations if isinstance(op, KernelOperation) for part in op.weights}
    streams |= {op.source.region for op in operations if isinstance(op, DmaOperation)}
    regions = []
    for region in range(REGIONS):
        size = max(0, high[region] - low[region])
        wanted = region in streams - written and size <= _MOST_CONTENT
        content = (read(region, low[region], size) if wanted else None) or b""
        regions.append(Region(region, RegionRole.CONSTANTS if content else RegionRole.UNUSED, size, content))
    lowered = {region: (region, -by) for region, by in low.items()}
    there = tuple(moved(op, lowered) for op in operations) if any(low.values()) else operations
    return Program(accelerator_name, there, words, tuple(regions))


class DevicePlanner:
    """Makes the timelines of a device's runs. Equal streams in equal memories are replayed once."""

    def __init__(self, device: Accelerator, timing: TimingParameters) -> None:
        self._device, self._timing = device, timing
        self._known: dict[object, tuple[Counts, tuple[tuple[int, int, int], ...], int]] = {}

    def _replayed(self, program: Program, system: MemorySystem) -> tuple[Counts, tuple[tuple[int, int, int], ...], int]:
        contents = tuple((region.size, hashlib.sha256(region.content).digest()) for region in program.regions)
        key = (program.operations, program.words, system, contents)
        known = self._known.pop(key, None)
        if known is None:
            replay = counted_replay(program, system, self._timing)
            times = tuple((operation.index, operation.issued, operation.finished) for operation in replay.operations)
            known = Counts(replay), times, replay.cycles
        self._known[key] = known
        while len(self._known) > _MOST_REPLAYS:
            del self._known[next(iter(self._known))]
        return known

    def plan(self, commands: Commands, first: int, system: MemorySystem, read: Callable[[int, int, int], bytes | None]) -> Run:
        """The run of ``commands`` from operation ``first`` on; InputError if it cannot be replayed."""
        operations, words = commands.operations[first:], commands.words[first:]
        ending = (
            DeviceEnding.ABORTED if commands.channel is not None else DeviceEnding.PARSE_ERROR if commands.complaint else DeviceEnding.DONE
        )
        if not operations:
            return Run(commands, first, None, (), (), 0, ending, first)
        program = timing_program(operations, words, self._device.name, read)
        counts, times, cycles = self._replayed(program, system)
        issued = [0] * len(operations)
        finished = [0] * len(operations)
        for index, start, end in times:
            issued[index], finished[index] = start, end
        reached, done = tuple(accumulate(issued, max)), tuple(accumulate(finished, max))
        steps = []
        for index, op in enumerate(operations):
            if isinstance(op, (KernelOperation, DmaOperation)):
                steps.append(DeviceStep(done[index], first + index))
            elif isinstance(op, Control) and op.kind is ControlKind.IRQ:
                steps.append(DeviceStep(reached[index], first + index))
        in_time = tuple(sorted(steps, key=lambda step: (step.cycle, step.index)))
        return Run(commands, first, counts, reached, in_time, cycles, ending, len(commands.operations))
