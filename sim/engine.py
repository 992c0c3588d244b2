"""The replay engine: the NPU's units as SimPy processes, run over one Program.

Time is in whole NPU cycles. Everything that could be taken in two orders has one: queues are first in, first out, and
the AXI ports serve their channels in turn (:mod:`sim.ports`).
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.accelerator import Accelerator
from npu_model.block_jobs import program_jobs
from npu_model.memory import MemorySystem
from npu_model.program import Program
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_work import StreamWork
from sim.commands import command_fetch, command_processor, dma
from sim.events import Listener
from sim.machine import Machine
from sim.pipeline import input_load, mac_array, output_unit, weight_decoder, write_back


def run_engine(
    program: Program,
    accelerator: Accelerator,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    timing: TimingParameters = DEFAULT_TIMING,
    work: StreamWork | None = None,
) -> Machine:
    """Simulate until every operation is finished; the machine holds the clock, the counts and the ports' beats.

    ``work`` is as in :func:`npu_model.block_jobs.program_jobs`.
    """
    machine = Machine(program, accelerator, system, listeners, timing, program_jobs(program, accelerator, timing, work))
    for unit in (command_fetch, dma, input_load, weight_decoder, mac_array, output_unit, write_back):
        machine.env.process(unit(machine))
    machine.env.run(until=machine.env.process(command_processor(machine)))
    return machine
