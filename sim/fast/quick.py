"""Quick replays by the compiled twin: of a Program, of a network, and of kernels in flat rows.

If the core is not built, the engine answers instead: its values are the same, but it takes about 80 times as long.
"""

from __future__ import annotations

from array import array

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.cost.deep_jobs import TimedProgram
from npu_model.cost.timed import copied_words, forms_chains
from npu_model.front import later
from npu_model.memory.system import AXI0, AXI1, MemorySystem
from npu_model.program import WORD_BYTES, KernelOperation, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import StreamWork, stream_work, work_of
from sim.engine.terms import Times
from sim.fast.compiled import CompiledCache, compiled_cache
from sim.footprint import footprint
from sim.replay import Beats, Counted, NetworkReplay, Replay, check_work, operation_beats, replay, replay_of

with later():
    from sim.engine import engine  # With a compiled core, no caller needs this module or SimPy.


class QuickReplay(Struct, frozen=True):
    """Cycles, beats and times of a Program, equal to those of :func:`sim.replay` to the cycle; units and waits are left out.

    ``times`` are the times of kernel operations and DMA transfers, by their index in the Program.
    """

    cycles: int
    beats: Beats
    times: dict[int, Times]


def quick_replay(
    program: Program,
    system: MemorySystem,
    timing: TimingParameters = DEFAULT_TIMING,
    work: StreamWork | None = None,
    device: Accelerator | None = None,
    timed: TimedProgram | None = None,
) -> QuickReplay:
    """Run one Program.

    ``work`` is the work of its weight streams, by default from its constants. ``device`` replaces the Program's accelerator.
    ``timed`` has the jobs of its chains, if they are known. InputError if its accelerator is unknown, a weight stream is damaged or the
    Program is absurdly large. Replays on equal devices, memory systems and
    parameters share their intermediate results while the process lives.
    """
    device = device or accelerator(program.accelerator)
    check_work(program)
    compiled = compiled_cache(device, system, timing)
    if compiled.is_usable:
        found = compiled.replay(program, _known(program, device, timing, work), timed=timed)
        return QuickReplay(found.cycles, found.beats + _command_and_copy_beats(program, device, system), found.times)
    machine = engine.run_engine(program, device, system, timing=timing, work=work)
    reads, writes = machine.ports.reads, machine.ports.writes
    beats = Beats(reads[AXI0].beats, writes[AXI0].beats, reads[AXI1].beats, writes[AXI1].beats)
    return QuickReplay(machine.env.cycle, beats, machine.times)


def _known(program: Program, device: Accelerator, timing: TimingParameters, work: StreamWork | None) -> StreamWork:
    """The work of the weight streams; empty if the timing does not need it."""
    if not timing.decodes_streams:
        return {}
    return stream_work(program, device) if work is None else work


def _command_and_copy_beats(program: Program, device: Accelerator, system: MemorySystem) -> Beats:
    """Data beats of the transfers and of the command fetch."""
    word, words = device.port_bytes_per_cycle, [0, 0, 0, 0]
    words[2 * system.command_port] += ceil_div(sum(program.words) * WORD_BYTES, word)
    for op in program.transfers:
        length = copied_words(op, word)
        words[2 * system.port_of(op.source.region)] += length
        if not op.to_shram:
            words[2 * system.port_of(op.destination_region) + 1] += length
    return Beats(*words)


def counted_replay(
    program: Program, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, work: StreamWork | None = None
) -> Replay:
    """Equal to :func:`sim.replay` without listeners.

    InputError if the Program's accelerator is unknown, a weight stream is damaged or the Program is absurdly large.
    """
    device = accelerator(program.accelerator)
    compiled = compiled_cache(device, system, timing)
    if not compiled.is_usable:
        return replay(program, system, timing=timing, work=work)
    check_work(program)
    found = compiled.replay(program, _known(program, device, timing, work), counted=True)
    are_alone = not forms_chains(device)
    beats = {
        index: found.kernel_beats(index) if are_alone and isinstance(op, KernelOperation) else operation_beats(op, device, system)
        for index, op in enumerate(program.operations)
    }
    total = found.beats + _command_and_copy_beats(program, device, system)
    return replay_of(program, device, system, Counted(found.cycles, total, beats, found.times, found.busy, found.waits), timing)


def counted_network(network: CompiledNetwork, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> NetworkReplay:
    """Equal to :func:`sim.replay_network` without listeners."""
    return NetworkReplay(
        replays=tuple(counted_replay(program, system, timing) for program in network.programs),
        footprint=footprint(network.programs, network.inputs, network.outputs),
    )


class FlatReplay:
    """The compiled replay of operations, as rows from :meth:`sim.fast.compiled.CompiledCache.rows`, with the works of their kernels."""

    def __init__(self, device: Accelerator, system: MemorySystem, timing: TimingParameters, compiled: CompiledCache) -> None:
        self._device, self._timing, self._compiled = device, timing, compiled
        self.ports = system.region_ports
        """The port of each region."""
        self.word = device.port_bytes_per_cycle
        """Bytes of a data word."""
        self.is_aligned = timing.aligned_bursts
        """Whether the addresses of transfers count."""

    def work(self, operation: KernelOperation, unstaged: KernelOperation, constants: bytes) -> memoryview:
        """The work of a kernel.

        Its weights lie in ``constants`` where ``unstaged`` reads them, and are copied to where ``operation`` reads them.
        The work is the same if addresses differ by multiples of 16 bytes, and addresses of weights by multiples of 1024.
        """
        decoding = work_of(unstaged, constants, self._device) if self._timing.decodes_streams and unstaged.weights else ()
        return self._compiled.work(operation, decoding)

    def cycles(self, rows: array[int], works: list[memoryview]) -> int:
        """Cycles of one Program."""
        return self.timed(rows, works)[0]

    def known(self) -> object:
        """A known replay that is still empty: see :meth:`sim.fast.compiled.CompiledCache.known`."""
        return self._compiled.known()

    def timed(self, rows: array[int], works: list[memoryview], known: object = None) -> tuple[int, array[int]]:
        """Cycles of one Program, and when its operations end: see :meth:`sim.fast.compiled.CompiledCache.timed`."""
        return self._compiled.timed(rows, works, known)


class QuickCycles(Struct, frozen=True):
    """NPU ACTIVE of all Programs of a network, one after the other: the cycles of :func:`sim.replay_network`."""

    def __call__(self, network: CompiledNetwork, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> int:
        """NPU cycles on the memories of ``system``, with the NPU's ``timing``."""
        return sum(quick_replay(program, system, timing).cycles for program in network.programs)

    def flat(self, device: str, system: MemorySystem, timing: TimingParameters) -> FlatReplay | None:
        """The compiled replay on a device; None if the core is not built, or if the memories' numbers do not fit into it."""
        found = accelerator(device)
        compiled = compiled_cache(found, system, timing)
        return FlatReplay(found, system, timing, compiled) if compiled.is_usable else None


quick_cycles = QuickCycles()
