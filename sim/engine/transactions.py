"""Read transactions of a Program, counted from its blocks without any timing."""

from __future__ import annotations

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import Read, program_jobs
from npu_model.memory.system import MemorySystem
from npu_model.program import Program
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from sim.engine.commands import copy_chunks, fetch_words
from sim.engine.ports import Channel, burst_beats, transactions


def read_transactions(program: Program, device: Accelerator, system: MemorySystem, timing: TimingParameters) -> tuple[int, int]:
    """Transactions that read through AXI0 and AXI1: kernels, transfers and the command fetch.

    A weight stream is one across steps: where a step ends inside a transaction, the next one goes on with it.
    """
    found, word = [0, 0], device.port_bytes_per_cycle

    def count(read: Read, channel: Channel, *, goes_on: bool = False) -> None:
        port = system.port_of(read.region)
        burst = burst_beats(system.ports[port], channel, device, timing)
        found[port] += len(transactions(read.runs, burst, read.phase)) - (goes_on and read.phase % burst > 0)

    for jobs in program_jobs(program, device, timing).values():
        for job in jobs:
            for scale in job.scales:
                count(scale, Channel.SCALES)
            for step in job.steps:
                for fetch in step.fetches:
                    count(fetch, Channel.IFM)
                for weight in step.weights:
                    count(weight, Channel.WEIGHTS, goes_on=True)
    for transfer in program.transfers:
        for start, _, beats in copy_chunks(transfer, word, aligned=timing.aligned_bursts):
            count(Read(transfer.source.region, (beats,), start), Channel.MEM2MEM)
    found[system.command_port] += ceil_div(sum(program.words), fetch_words(device))
    return found[0], found[1]
