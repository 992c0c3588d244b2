"""The fast recurrence in Python: the units of a replay resumed in the engine's order, without its events."""

from __future__ import annotations

from npu_model.accelerator import Accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation, Program
from npu_model.timing import TimingParameters
from npu_model.weight_stream.work import StreamWork
from sim.engine.terms import Times
from sim.fast.commands import command_fetch, command_processor, dma
from sim.fast.jobs import replay_cache
from sim.fast.machine import Machine
from sim.fast.pipeline import input_load, mac_array, output_unit, write_back
from sim.fast.weights import weight_decoder
from sim.replay import Beats


def recurrence(
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
