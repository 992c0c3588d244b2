"""Quick replays: cycles, data beats and the times of the operations of a Program, from the fast recurrence."""

from __future__ import annotations

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import WORD_BYTES, KernelOperation, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import StreamWork, stream_work
from sim.engine.machine import Times
from sim.fast.commands import command_fetch, command_processor, dma
from sim.fast.compiled import compiled_cache
from sim.fast.jobs import replay_cache
from sim.fast.machine import Machine
from sim.fast.pipeline import input_load, mac_array, output_unit, write_back
from sim.fast.weights import weight_decoder
from sim.replay import Beats, check_work


class QuickReplay(Struct, frozen=True):
    """Cycles, beats and times of a Program, equal to those of :func:`sim.replay` to the cycle; units and waits are left out.

    ``times`` are those of the kernel operations and DMA transfers, by their index in the Program.
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
) -> QuickReplay:
    """Run one Program; ``work`` is what is known of its weight streams, by default what its constants tell.

    ``device`` stands for the accelerator that the Program names, by default that one.

    InputError if its accelerator is unknown, a weight stream is damaged or it is absurdly large.
    Replays on equal devices, memory systems and parameters share what they have worked out, as long as the process lives.
    """
    device = device or accelerator(program.accelerator)
    check_work(program)
    known = {} if not timing.decodes_streams else stream_work(program, device) if work is None else work
    rest = command_and_copy_beats(program, device, system)
    compiled = compiled_cache(device, system, timing)
    if compiled.is_usable:
        found = compiled.replay(program, known)
        return QuickReplay(found.cycles, found.beats + rest, found.times)
    cycles, beats, times = _recurrence(program, device, system, timing, known)
    return QuickReplay(cycles, beats + rest, times)


def _recurrence(
    program: Program, device: Accelerator, system: MemorySystem, timing: TimingParameters, known: StreamWork
) -> tuple[int, Beats, dict[int, Times]]:
    """Cycles, data beats of kernels alone, and times, without the compiled core."""
    cache = replay_cache(device, system, timing)
    operations = enumerate(program.operations)
    flat = {index: cache.kernel(op, known.get(index, ())) for index, op in operations if isinstance(op, KernelOperation)}
    machine = Machine(program, cache, flat)
    agenda = machine.agenda
    # The engine starts its units in this order.
    for unit in (command_fetch, dma, input_load, weight_decoder, mac_array, output_unit, write_back, command_processor):
        agenda.start(unit(machine))
    agenda.walk()
    moved = [flat.words for flat in machine.flat.values()]
    return machine.end, Beats(*(sum(column) for column in zip(*moved, strict=True))), machine.times


def command_and_copy_beats(program: Program, device: Accelerator, system: MemorySystem) -> Beats:
    """Data beats of the transfers and of the command fetch."""
    word, words = device.port_bytes_per_cycle, [0, 0, 0, 0]
    words[2 * system.command_port] += ceil_div(sum(program.words) * WORD_BYTES, word)
    for op in program.transfers:
        length = ceil_div(op.length, word)
        words[2 * system.port_of(op.source.region)] += length
        if not op.to_shram:
            words[2 * system.port_of(op.destination_region) + 1] += length
    return Beats(*words)
