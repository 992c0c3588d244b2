"""Quick replays: cycles, data beats and the times of the operations of a Program, from the fast recurrence."""

from __future__ import annotations

from dataclasses import dataclass

from npu_model.accelerator import accelerator
from npu_model.compiled import CompiledNetwork
from npu_model.memory import AXI0, AXI1, MemorySystem
from npu_model.program import Program
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_work import StreamWork, stream_work
from sim.machine import Times
from sim.recurrence.commands import command_fetch, command_processor, dma
from sim.recurrence.jobs import replay_cache
from sim.recurrence.machine import Machine
from sim.recurrence.pipeline import input_load, mac_array, output_unit, weight_decoder, write_back
from sim.replay import Beats, check_work


@dataclass(frozen=True, slots=True)
class QuickReplay:
    """What :func:`sim.replay` says of a Program, but for units and waits: equal to it, to the cycle.

    ``times`` are those of the kernel operations and DMA transfers, by their index in the Program.
    """

    cycles: int
    beats: Beats
    times: dict[int, Times]


def quick_replay(
    program: Program, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, work: StreamWork | None = None
) -> QuickReplay:
    """Run one Program; ``work`` is what is known of its weight streams, by default what its constants tell.

    InputError if its accelerator is unknown, a weight stream is damaged or it is absurdly large.
    Replays on equal devices, memory systems and parameters share what they have worked out, as long as the process lives.
    """
    device = accelerator(program.accelerator)
    check_work(program)
    known = ({} if not timing.decodes_streams else stream_work(program, device)) if work is None else work
    machine = Machine(program, replay_cache(device, system, timing), known)
    agenda = machine.agenda
    # The engine starts its units in this order.
    for unit in (command_fetch, dma, input_load, weight_decoder, mac_array, output_unit, write_back, command_processor):
        agenda.start(unit(machine))
    agenda.walk()
    beats = [server.beats for port in (machine.ports[AXI0], machine.ports[AXI1]) for server in port]
    return QuickReplay(machine.end, Beats(*beats), machine.times)


def quick_cycles(network: CompiledNetwork, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> int:
    """NPU ACTIVE of all Programs of a network, one after the other: the cycles of :func:`sim.replay_network`."""
    return sum(quick_replay(program, system, timing).cycles for program in network.programs)
