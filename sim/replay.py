"""Replay: run Programs on the engine and count the cycles of each operation by unit, port and cause."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator, require_use
from npu_model.compiled.network import CompiledNetwork
from npu_model.cost.block_jobs import BlockJob
from npu_model.cost.mac_activity import NO_ACTIVITY, mac_activity
from npu_model.cost.timed import copied_words, forms_chains, kernel_beats
from npu_model.cost.traversal import block_count, reduces_depth
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.system import AXI0, AXI1, MemorySystem
from npu_model.program import BRICK, DmaOperation, KernelOperation, Operation, OperationKind, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.work import StreamWork
from sim.engine.terms import Times
from sim.events import Cause, Listener, Unit
from sim.footprint import Footprint, footprint

with later():
    # Compiled replays need neither the engine nor SimPy, whose import takes a fiftieth of a second.
    from sim.engine import engine, transactions

MAX_BLOCKS = 4_000_000
"""Largest number of OFM blocks that a replay accepts: far beyond any real network, so that a damaged file cannot run for hours."""

MAX_STEPS = 1 << 26
"""Steps of the MAC array (a part of the window over a part of the depth, of one block) that a replay accepts, for the same reason."""


class Beats(Struct, frozen=True):
    """Data beats (of ``port_bytes_per_cycle``) per port and direction."""

    axi0_read: int = 0
    axi0_write: int = 0
    axi1_read: int = 0
    axi1_write: int = 0

    def __add__(self, other: Beats) -> Beats:
        return Beats(
            self.axi0_read + other.axi0_read,
            self.axi0_write + other.axi0_write,
            self.axi1_read + other.axi1_read,
            self.axi1_write + other.axi1_write,
        )


class OperationReplay(Struct, frozen=True):
    """The work of one kernel operation or DMA transfer.

    ``issued`` and ``finished`` are cycles of the replay. ``busy`` and ``waits`` hold the cycles of each unit (and cause), without zeros.
    Wait and control commands count for the operation after them, or at the end for the last operation. ``beats`` leaves out the command
    fetch.
    """

    index: int
    name: str
    op: KernelOperation | DmaOperation
    issued: int
    finished: int
    busy: dict[Unit, int]
    waits: dict[tuple[Unit, Cause], int]
    beats: Beats


class Replay(Struct, frozen=True):
    """The replay of one Program: ``cycles`` is the PMU's NPU ACTIVE, ``beats`` the ports' data beats.

    ``timing`` are its parameters.
    """

    program: Program
    accelerator: Accelerator
    system: MemorySystem
    cycles: int
    beats: Beats
    operations: tuple[OperationReplay, ...]
    busy: dict[Unit, int]
    waits: dict[tuple[Unit, Cause], int]
    timing: TimingParameters = DEFAULT_TIMING

    def _held_up(self) -> tuple[int, int]:
        """Busy cycles of the MAC array without multiplications: those due to the decoder in convolutions, and the other kernels'."""
        held = [0, 0]
        for operation in self.operations:
            if isinstance(operation.op, KernelOperation) and Unit.MAC in operation.busy:
                is_other = operation.op.kind is not OperationKind.CONV_2D
                held[is_other] += operation.busy[Unit.MAC] - mac_activity(operation.op, self.accelerator, self.timing).active
        return held[0], held[1]

    def pmu(self) -> dict[str, int]:
        """Counters under the names of Arm's PMU events (core driver ``ethosu55_interface.h``); docs/pmu.md defines each of them."""
        wait = defaultdict(int, self.waits)
        by_decoder, by_accumulators = self._held_up()
        activity = sum((mac_activity(op, self.accelerator, self.timing) for op in self.program.kernels), NO_ACTIVITY)
        axi0_reads, axi1_reads = transactions.read_transactions(self.program, self.accelerator, self.system, self.timing)
        return {
            "NPU_ACTIVE": self.cycles,
            "AXI0_RD_DATA_BEAT_RECEIVED": self.beats.axi0_read,
            "AXI0_WR_DATA_BEAT_WRITTEN": self.beats.axi0_write,
            "AXI1_RD_DATA_BEAT_RECEIVED": self.beats.axi1_read,
            "AXI0_RD_TRANS_ACCEPTED": axi0_reads,
            "AXI1_RD_TRANS_ACCEPTED": axi1_reads,
            "MAC_ACTIVE": activity.active,
            "MAC_DPU_ACTIVE": activity.dot_products,
            "MAC_STALLED_BY_IB": wait[Unit.MAC, Cause.IB],
            "MAC_STALLED_BY_WD": wait[Unit.MAC, Cause.WEIGHTS] + by_decoder,
            "MAC_STALLED_BY_ACC": wait[Unit.MAC, Cause.ACC] + by_accumulators,
            "AO_ACTIVE": self.busy.get(Unit.AO, 0),
            "AO_STALLED_BY_ACC": wait[Unit.AO, Cause.ACC],
            "AO_STALLED_BY_OB": wait[Unit.AO, Cause.OB],
            "CC_STALLED_ON_BLOCKDEP": wait[Unit.IFM, Cause.BLOCKDEP],
            "CC_STALLED_ON_SHRAM_RECONFIG": wait[Unit.IFM, Cause.SHRAM],
        }


class NetworkReplay(Struct, frozen=True):
    """The replays of a network's Programs, one after the other, in one arena; CPU operators take no NPU cycles."""

    replays: tuple[Replay, ...]
    footprint: Footprint

    @property
    def cycles(self) -> int:
        """NPU ACTIVE of all Programs."""
        return sum(replay.cycles for replay in self.replays)

    @property
    def beats(self) -> Beats:
        """Data beats of all Programs."""
        return sum((replay.beats for replay in self.replays), Beats())


def _add(beats: list[list[int]], port: int, direction: int, amount: int) -> None:
    beats[port][direction] += amount


def operation_beats(op: Operation, device: Accelerator, system: MemorySystem, jobs: Sequence[BlockJob] | None = None) -> Beats:
    """Data beats of one operation, counted from its blocks (``jobs`` if given) without any timing (commands not included)."""
    beats = [[0, 0], [0, 0]]
    if isinstance(op, KernelOperation):
        for region, read_beats, written in kernel_beats(op, device) if jobs is None else ():
            _add(beats, system.port_of(region), 0, read_beats)
            _add(beats, system.port_of(region), 1, written)
        for job in jobs or ():
            for read in job.scales + tuple(r for step in job.steps for r in step.fetches + step.weights):
                _add(beats, system.port_of(read.region), 0, sum(read.runs))
            _add(beats, system.port_of(op.ofm.region), 1, sum(job.writes))
    elif isinstance(op, DmaOperation):
        words = copied_words(op, device.port_bytes_per_cycle)
        _add(beats, system.port_of(op.source.region), 0, words)
        if not op.to_shram:
            _add(beats, system.port_of(op.destination_region), 1, words)
    return Beats(beats[AXI0][0], beats[AXI0][1], beats[AXI1][0], beats[AXI1][1])


def most_steps(op: KernelOperation) -> int:
    """Upper bound of the MAC array's steps: every block processes the window in parts, each over the depth in parts."""
    rows, columns = WeightFormat.of(op).subkernel
    window = ceil_div(op.kernel.height, rows) * ceil_div(op.kernel.width, columns)
    return block_count(op) * window * (ceil_div(op.ifm.shape.depth, BRICK) if reduces_depth(op) else 1)


def check_work(program: Program) -> None:
    """InputError if the cycles of the program's accelerator are not simulated, or if the program is absurdly large."""
    require_use(program.accelerator, "replay")
    blocks = sum(block_count(op) for op in program.kernels)
    if blocks > MAX_BLOCKS:
        raise InputError(f"The program has {blocks} OFM blocks: at most {MAX_BLOCKS} are replayed; check its block configs.")
    steps = sum(most_steps(op) for op in program.kernels)
    if steps > MAX_STEPS:
        raise InputError(f"The program has {steps} steps of the MAC array: at most {MAX_STEPS} are replayed; check its kernels' windows.")


def _owners(program: Program) -> list[int]:
    """For each command, the index of its kernel operation or transfer: the next one, or else the last."""
    works = [i for i, op in enumerate(program.operations) if isinstance(op, (KernelOperation, DmaOperation))]
    after = [bisect_left(works, i) for i in range(len(program.operations))]
    return [works[min(position, len(works) - 1)] if works else i for i, position in enumerate(after)]


Busy = Mapping[tuple[int, Unit], int]
"""Busy cycles by operation and unit, as a replay counts them."""

Waits = Mapping[tuple[int, Unit, Cause], int]
"""Waiting cycles by operation, unit and cause."""


def _by_operation(
    program: Program, busy: Busy, waits: Waits
) -> tuple[dict[int, dict[Unit, int]], dict[int, dict[tuple[Unit, Cause], int]]]:
    found_busy: dict[int, dict[Unit, int]] = defaultdict(lambda: defaultdict(int))
    found_waits: dict[int, dict[tuple[Unit, Cause], int]] = defaultdict(lambda: defaultdict(int))
    owners = _owners(program)
    for (index, unit), cycles in busy.items():
        found_busy[owners[index]][unit] += cycles
    for (index, unit, cause), cycles in waits.items():
        found_waits[owners[index]][unit, cause] += cycles
    return found_busy, found_waits


def _totals(busy: Busy, waits: Waits) -> tuple[dict[Unit, int], dict[tuple[Unit, Cause], int]]:
    total_busy: dict[Unit, int] = defaultdict(int)
    total_waits: dict[tuple[Unit, Cause], int] = defaultdict(int)
    for (_, unit), cycles in busy.items():
        total_busy[unit] += cycles
    for (_, unit, cause), cycles in waits.items():
        total_waits[unit, cause] += cycles
    return dict(total_busy), dict(total_waits)


class Counted(Struct, frozen=True):
    """Counts of a run of a Program: cycles, data beats by port and by operation, times, and the units' work and waits."""

    cycles: int
    beats: Beats
    operation_beats: Mapping[int, Beats]
    times: Mapping[int, Times]
    busy: Busy
    waits: Waits


def replay_of(
    program: Program, device: Accelerator, system: MemorySystem, counted: Counted, timing: TimingParameters = DEFAULT_TIMING
) -> Replay:
    """The replay of a Program, with all counts."""
    busy, waits = _by_operation(program, counted.busy, counted.waits)
    totals, total_waits = _totals(counted.busy, counted.waits)
    operations = tuple(
        OperationReplay(
            index=index,
            name=program.name(index),
            op=op,
            issued=counted.times[index].issued,
            finished=counted.times[index].finished,
            busy=dict(busy[index]),
            waits=dict(waits[index]),
            beats=counted.operation_beats[index],
        )
        for index, op in enumerate(program.operations)
        if isinstance(op, (KernelOperation, DmaOperation))
    )
    return Replay(program, device, system, counted.cycles, counted.beats, operations, totals, total_waits, timing)


def replay(
    program: Program,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    timing: TimingParameters = DEFAULT_TIMING,
    work: StreamWork | None = None,
) -> Replay:
    """Run one Program.

    ``work`` is the work of its weight streams, by default from its constants. InputError if its accelerator is unknown, a weight stream is
    damaged or the Program is absurdly large.
    """
    device = accelerator(program.accelerator)
    check_work(program)
    for listener in listeners:
        listener.on_start(program)
    machine = engine.run_engine(program, device, system, listeners, timing, work)
    reads, writes, recorder = machine.ports.reads, machine.ports.writes, machine.recorder
    jobs = {} if forms_chains(device) else machine.jobs
    moved = {index: operation_beats(op, device, system, jobs.get(index)) for index, op in enumerate(program.operations)}
    beats = Beats(reads[AXI0].beats, writes[AXI0].beats, reads[AXI1].beats, writes[AXI1].beats)
    counted = Counted(machine.env.cycle, beats, moved, machine.times, recorder.busy, recorder.waits)
    return replay_of(program, device, system, counted, timing)


def replay_network(
    network: CompiledNetwork, system: MemorySystem, listeners: Sequence[Listener] = (), timing: TimingParameters = DEFAULT_TIMING
) -> NetworkReplay:
    """Run every Program of a compiled network in order."""
    programs = network.programs
    return NetworkReplay(
        replays=tuple(replay(program, system, listeners, timing) for program in programs),
        footprint=footprint(programs, network.inputs, network.outputs),
    )
