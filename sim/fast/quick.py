"""Quick replays: cycles, data beats and the times of the operations of a Program, from the fast recurrence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.program import WORD_BYTES, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import StreamWork, stream_work
from sim.engine.terms import Times
from sim.fast.compiled import compiled_cache
from sim.replay import Beats, check_work

if TYPE_CHECKING:
    from sim.fast import recurrence as recurrences
else:
    recurrences = later("sim.fast.recurrence")  # where the core is built nobody asks for it


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

    cycles, beats, times = recurrences.recurrence(program, device, system, timing, known)
    return QuickReplay(cycles, beats + rest, times)


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
