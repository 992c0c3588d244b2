"""The twin's kernel pipeline: the units of :mod:`sim.engine.pipeline`, wait by wait in the same order, with nothing recorded."""

from __future__ import annotations

from collections import deque
from functools import partial

from npu_model.timing import BlockdepRule
from sim.engine.terms import Channel, Times
from sim.fast.clock import Resume, Unit
from sim.fast.jobs import FlatBlock, Request
from sim.fast.machine import KernelRun, Machine, StepWork
from sim.fast.ports import Ports


class _Countdown:
    """Resumes a unit with the last of several completions, as a unit does that waits for one after the other."""

    __slots__ = ("_left", "_resume")

    def __init__(self, left: int, resume: Resume) -> None:
        self._left = left
        self._resume = resume

    def __call__(self) -> None:
        self._left -= 1
        if not self._left:
            self._resume()


def ask_for(ports: Ports, requests: tuple[Request, ...], me: Resume) -> None:
    """Queue reads; the unit is resumed when all are there."""
    done: Resume = me if len(requests) == 1 else _Countdown(len(requests), me)
    for request in requests:
        ports[request.port][0].transfer(request.channel, request.transfer, done)


def put_weights(machine: Machine, blocks: tuple[FlatBlock, ...]) -> None:
    """Let the weight decoder go on with these blocks."""
    machine.weight_queue.put_all(blocks)
    if machine.asks_ahead:
        machine.weight_news.put(None)


def _dependencies(run: KernelRun, rule: BlockdepRule) -> tuple[int, int]:
    """Blocks of the previous kernel that must be stored before this one's may start, and how many fewer for its first one (BLOCKDEP)."""
    if run.previous is None or rule is BlockdepRule.IGNORED:
        return 0, 0
    return len(run.previous.flat.blocks), run.op.blockdep if rule is BlockdepRule.HONOURED else 0


class _Loads:
    """Loads that are asked for and not handed on yet, as :class:`sim.engine.loads.Loads`."""

    __slots__ = ("_arrived", "_asked", "_loaded", "_ports", "_under_way")

    def __init__(self, machine: Machine) -> None:
        self._ports, self._loaded = machine.ports, machine.loaded
        self._under_way: deque[tuple[StepWork, int, int]] = deque()
        self._asked, self._arrived = [0, 0], [0, 0]

    def ask(self, work: StepWork) -> None:
        """Queue the reads of a step."""
        for request in work[3].fetches:
            self._asked[request.port] += 1
            self._ports[request.port][0].transfer(request.channel, request.transfer, partial(self._arrive, request.port))
        self._under_way.append((work, self._asked[0], self._asked[1]))
        self._hand_on()

    def _arrive(self, port: int) -> None:
        self._arrived[port] += 1
        self._hand_on()

    def _hand_on(self) -> None:
        under_way, arrived = self._under_way, self._arrived
        while under_way and under_way[0][1] <= arrived[0] and under_way[0][2] <= arrived[1]:
            self._loaded.put(under_way.popleft()[0])


def input_load(machine: Machine) -> Unit:  # noqa: C901, PLR0912  # the unit's waits one after the other, as in the engine
    """Fetch the IFM blocks into the input buffer."""
    me = yield
    agenda, timing, ports, slots, loaded = machine.agenda, machine.timing, machine.ports, machine.input_slots, machine.loaded
    drain, access, loads = timing.drain_responses, machine.accelerator.access, _Loads(machine)
    start_cycles = timing.kernel_start_cycles + access.kernel_start_cycles
    while True:
        if machine.kernel_queue.wait(me):
            yield
        run = machine.kernel_queue.items.popleft()
        if timing.weights_ahead:
            put_weights(machine, run.flat.blocks)
        previous = run.previous
        if previous is not None and run.repartitions and timing.shram_drains and previous.written.reach(len(previous.flat.blocks), me):
            yield
        all_but, ahead = _dependencies(run, timing.blockdep)
        for number, block in enumerate(run.flat.blocks):
            if previous is not None:
                if previous.written.reach(all_but - max(0, ahead - number), me):
                    yield
                if number == 0 and all_but and ahead == 0:
                    left = machine.times[previous.index].finished + drain * ports[previous.flat.port][1].response - agenda.cycle
                    if left > 0 and agenda.later(left, me):
                        yield
            if not timing.weights_ahead:
                put_weights(machine, (block,))
            if number == 0 and start_cycles and agenda.later(start_cycles, me):
                yield
            for step in block.steps:
                if not step.continues and slots.take(me):
                    yield
                if access.ifm_ahead:
                    loads.ask((run, number, block, step))
                    continue
                if step.fetches:
                    ask_for(ports, step.fetches, me)
                    yield
                loaded.put((run, number, block, step))


def mac_array(machine: Machine) -> Unit:
    """Accumulate step by step."""
    me = yield
    agenda, loaded, decoded, accumulators = machine.agenda, machine.loaded, machine.decoded, machine.accumulator_slots
    while True:
        if loaded.wait(me):
            yield
        run, number, block, step = loaded.items.popleft()
        if decoded.wait(me):
            yield
        decoded.items.popleft()
        if step.is_first and accumulators.take(me):
            yield
        if step.mac_cycles and agenda.later(step.mac_cycles, me):
            yield
        if step.frees_input:
            machine.input_slots.release()
        machine.weight_slots.release()
        if machine.asks_ahead:
            machine.weight_news.put(None)
        if step.is_last:
            machine.accumulated.put((run, number, block))


def output_unit(machine: Machine) -> Unit:
    """Scale block by block."""
    me = yield
    agenda, accumulated, slots = machine.agenda, machine.accumulated, machine.output_slots
    while True:
        if accumulated.wait(me):
            yield
        work = accumulated.items.popleft()
        if slots.take(me):
            yield
        if agenda.later(work[2].output_cycles, me):
            yield
        machine.accumulator_slots.release()
        machine.scaled.put(work)


def _stored(machine: Machine, run: KernelRun, number: int) -> None:
    """Count a block as stored."""
    if number == len(run.flat.blocks) - 1:
        machine.times[run.index] = Times(run.issued, machine.agenda.cycle)
        machine.kernels_done.advance()
    run.written.advance()


def write_back(machine: Machine) -> Unit:
    """Store block by block."""
    me = yield
    agenda, scaled, ports, posted = machine.agenda, machine.scaled, machine.ports, machine.timing.posted_writes
    while True:
        if scaled.wait(me):
            yield
        run, number, block = scaled.items.popleft()
        server = ports[run.flat.port][1]
        server.transfer(Channel.OFM, block.writes, me)
        yield
        if server.response and not posted and agenda.later(server.response, me):
            yield
        machine.output_slots.release()
        if server.response and posted:
            agenda.call(server.response, partial(_stored, machine, run, number))
        else:
            _stored(machine, run, number)
