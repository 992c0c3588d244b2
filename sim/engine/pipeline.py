"""The kernel pipeline: input load, MAC array, output unit and write-back; the weight decoder is in :mod:`sim.engine.weights`.

Each unit is one process, to be read from top to bottom. The units continue from one kernel to the next; only BLOCKDEP and a changed SHRAM
partition delay the next kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import simpy

from sim.engine.machine import KernelRun, Machine, Work
from sim.engine.ports import Completion
from sim.engine.terms import Channel, Times
from sim.events import Cause, Unit

Process = Generator[simpy.Event, Any, None]


class Loads:
    """Requested loads of the input buffer, oldest first; each is passed on in its turn.

    A port answers the reads of one channel in the order of the requests. A load is complete once each port has answered all reads that were
    requested up to then.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._under_way: deque[tuple[Work, tuple[int, int], int]] = deque()
        self._asked, self._arrived = [0, 0], [0, 0]
        self._last = 0

    def ask(self, work: Work) -> None:
        """Read the IFM of a step into a taken slot, or into the previous one."""
        ports = self._machine.ports
        for read in work.job.steps[work.step].fetches:
            port = ports.system.port_of(read.region)
            self._asked[port] += 1
            ports.load(read.region, read.runs, work.run.ifm_pace).call(partial(self._arrive, port))
        self._under_way.append((work, (self._asked[0], self._asked[1]), self._machine.env.cycle))
        self._hand_on()

    def _arrive(self, port: int) -> None:
        self._arrived[port] += 1
        self._hand_on()

    def _hand_on(self) -> None:
        machine = self._machine
        while self._under_way and all(asked <= there for asked, there in zip(self._under_way[0][1], self._arrived, strict=True)):
            work, _, start = self._under_way.popleft()
            machine.recorder.was_busy(Unit.IFM, max(start, self._last), work.run.index)
            self._last = machine.env.cycle
            machine.input_buffer.fill(work)

    def wait(self, cause: Cause, event: simpy.Event, operation: int) -> Process:
        """Let the input load wait. It counts as busy while a load is under way."""
        start = self._machine.env.cycle
        yield event
        if not self._under_way:
            self._machine.recorder.waited(Unit.IFM, cause, max(start, self._last), operation)


def _drain(machine: Machine, loads: Loads, run: KernelRun) -> Process:
    """Wait until the areas of the shared buffer may move: every block of the previous kernel must have left them."""
    previous = run.previous
    if previous is not None and run.repartitions and machine.timing.shram_drains:
        yield from loads.wait(Cause.SHRAM, previous.written.reach(len(previous.jobs)), run.index)


def _dependencies(machine: Machine, loads: Loads, run: KernelRun, block: int) -> Process:
    """Wait until the previous kernel has progressed enough for this kernel's ``block``."""
    previous = run.previous
    if previous is None:
        return
    needed = run.needed_of_previous(block, machine.timing.blockdep)
    yield from loads.wait(Cause.BLOCKDEP, previous.written.reach(needed), run.index)
    if block == 0 and needed == len(previous.jobs):
        drained = machine.times[previous.index].finished + machine.timing.drain_responses * machine.ports.response(previous.op.ofm.region)
        if drained > machine.env.cycle:
            yield from loads.wait(Cause.BLOCKDEP, machine.env.timeout(drained - machine.env.cycle), run.index)


def _ask_for_weights(machine: Machine, blocks: Sequence[Work]) -> None:
    """Let the weight decoder continue with these blocks, and the reads of scales that have a buffer of their own."""
    for work in blocks:
        machine.weight_queue.put(work)
    machine.scales.ask([work.job for work in blocks])
    machine.tell_weights()


def input_load(machine: Machine) -> Process:
    """Fetch the IFM blocks (both operands' for elementwise) into the input buffer."""
    timing, access = machine.timing, machine.accelerator.access
    start_cycles, loads = timing.kernel_start_cycles + access.kernel_start_cycles, Loads(machine)
    while True:
        run: KernelRun = yield machine.kernel_queue.get()
        weights = [Work(run, block, 0) for block in range(len(run.jobs))]
        if timing.weights_ahead:
            # Weights depend on no other kernel, so their decoder need not wait where the input load does.
            _ask_for_weights(machine, weights)
        yield from _drain(machine, loads, run)
        for block, job in enumerate(run.jobs):
            yield from _dependencies(machine, loads, run, block)
            if not timing.weights_ahead:
                _ask_for_weights(machine, weights[block : block + 1])
            if block == 0 and start_cycles:
                yield from loads.wait(Cause.START, machine.env.timeout(start_cycles), run.index)
            for number, step in enumerate(job.steps):
                if not step.continues:
                    yield from loads.wait(Cause.IB, machine.input_buffer.take(), run.index)
                if access.ifm_ahead:
                    loads.ask(Work(run, block, number))
                    continue
                start = machine.env.cycle
                fetches = [machine.ports.load(read.region, read.runs, run.ifm_pace) for read in step.fetches]
                yield from fetches
                machine.recorder.was_busy(Unit.IFM, start, run.index)
                machine.input_buffer.fill(Work(run, block, number))


def mac_array(machine: Machine) -> Process:
    """Accumulate step by step; a block's accumulators go to the output unit after its last step."""
    recorder = machine.recorder
    while True:
        start = machine.env.cycle
        work: Work = yield machine.input_buffer.next()
        index = work.run.index
        recorder.waited(Unit.MAC, Cause.IB, start, index)
        yield from recorder.wait(Unit.MAC, Cause.WEIGHTS, machine.weight_buffer.next(), index)
        if work.step == 0:
            yield from recorder.wait(Unit.MAC, Cause.ACC, machine.accumulators.take(), index)
        cycles = work.job.steps[work.step].mac_cycles
        if cycles:
            yield from recorder.work(Unit.MAC, machine.env.timeout(cycles), index)
        if work.frees_input:
            machine.input_buffer.release()
        machine.weight_buffer.release()
        machine.tell_weights()
        if work.is_last_step:
            machine.accumulators.fill(work)


def output_unit(machine: Machine) -> Process:
    """Scale, clamp and look up block by block; elementwise operations are computed here."""
    recorder = machine.recorder
    while True:
        start = machine.env.cycle
        work: Work = yield machine.accumulators.next()
        index = work.run.index
        recorder.waited(Unit.AO, Cause.ACC, start, index)
        yield from recorder.wait(Unit.AO, Cause.OB, machine.output_buffer.take(), index)
        if machine.accelerator.access.scale_words:
            yield from recorder.wait(Unit.AO, Cause.SCALES, machine.scales.next(), index)
        yield from recorder.work(Unit.AO, machine.env.timeout(work.job.output_cycles), index)
        machine.accumulators.release()
        machine.output_buffer.fill(work)


def _stored(machine: Machine, work: Work) -> None:
    """Count a block as stored."""
    run = work.run
    if work.is_last_block:
        machine.times[run.index] = Times(run.issued, machine.env.cycle)
        machine.kernels_done.advance()
    run.written.advance()


def write_back(machine: Machine) -> Process:
    """Store block by block; a block counts as stored with its last write response."""
    while True:
        work: Work = yield machine.output_buffer.next()
        run = work.run
        handed_over = machine.ports.write(run.op.ofm.region, Channel.OFM, work.job.writes)
        response = machine.ports.response(run.op.ofm.region)
        yield from machine.recorder.work(Unit.OFM, handed_over, run.index)
        if response and not machine.timing.posted_writes:
            yield from machine.recorder.work(Unit.OFM, machine.env.timeout(response), run.index)
        machine.output_buffer.release()
        if response and machine.timing.posted_writes:
            answer = Completion(machine.env)
            answer.call(partial(_stored, machine, work))
            answer.fire_in(response)
        else:
            _stored(machine, work)
