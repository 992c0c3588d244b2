"""The replay engine: the NPU's units as SimPy processes, run over one Program.

Time is in whole NPU cycles. Every order is fixed: queues are first in, first out, and the AXI ports serve their channels in turn
(:mod:`sim.engine.ports`).
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.accelerator import Accelerator
from npu_model.cost.timed import timed_program
from npu_model.memory.system import MemorySystem
from npu_model.program import Program
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import StreamWork
from sim.engine.commands import command_fetch, command_processor, dma
from sim.engine.machine import Machine
from sim.engine.pipeline import input_load, mac_array, output_unit, write_back
from sim.engine.weights import weight_decoder
from sim.events import Listener


def run_engine(
    program: Program,
    accelerator: Accelerator,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    timing: TimingParameters = DEFAULT_TIMING,
    work: StreamWork | None = None,
) -> Machine:
    """Simulate until every operation is finished; the machine holds the clock, the counts and the ports' beats.

    ``work`` is as in :func:`npu_model.cost.block_jobs.program_jobs`.
    """
    timed = timed_program(program, accelerator, timing, work)
    machine = Machine(timed.program, accelerator, system, listeners, timing, timed.jobs)
    for unit in (command_fetch, dma, input_load, weight_decoder, mac_array, output_unit, write_back):
        machine.env.process(unit(machine))
    machine.env.run(until=machine.env.process(command_processor(machine)))
    machine.times |= {index: machine.times[head] for index, head in timed.heads.items()}
    return machine
