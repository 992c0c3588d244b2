"""The twin's AXI ports: the servers of :mod:`sim.engine.ports`, turn by turn instead of transaction by transaction."""

from __future__ import annotations

from collections import deque
from heapq import heappush

from npu_model.memory.system import Memory
from npu_model.timing import TimingParameters
from sim.engine.terms import Channel
from sim.fast.clock import NEVER, Agenda, Resume, Unit
from sim.fast.gate import Gate
from sim.fast.lane import Lane, Transfer


def _picks() -> list[list[int]]:
    """The channel whose turn it is, by the channel after the last one and the set of channels with work, as bits; 0 for no work."""
    channels = len(Channel)
    orders = [[(first + i) % channels for i in range(channels)] for first in range(channels + 1)]
    return [[next((channel for channel in order if work >> channel & 1), 0) for work in range(1 << channels)] for order in orders]


_PICKS = _picks()


class Path:
    """A data path that both directions share: until when it is busy, in parts of a cycle, and through whom."""

    __slots__ = ("busy", "user")

    def __init__(self) -> None:
        self.busy = 0
        self.user: Server | None = None


class Server:
    """One direction of one port."""

    __slots__ = ("_agenda", "_gate", "_idle", "_lane", "_next", "_path", "_queues", "_resume", "_work", "response")

    def __init__(self, agenda: Agenda, lane: Lane, gate: Gate, path: Path | None) -> None:
        self._agenda = agenda
        self._lane = lane
        self.response = lane.response
        self._gate = gate
        self._path = path
        self._queues: tuple[deque[tuple[Transfer, Resume | None]], ...] = tuple(deque() for _ in Channel)
        self._work = 0
        self._idle = False
        self._next = (0, -1)
        self._resume: Resume = agenda.walk
        agenda.start(self._serve())

    def transfer(self, channel: int, transfer: Transfer | None, done: Resume | None) -> None:
        """Queue a transfer (None if it is empty); ``done`` is resumed with the last data word read, or handed over to be written."""
        if transfer is None:
            if done is not None:
                self._agenda.due.append(done)
            return
        self._queues[channel].append((transfer, done))
        self._work |= 1 << channel
        if self._idle:
            self._idle = False
            agenda, (cycle, number) = self._agenda, self._next
            if agenda.cycle > cycle or not agenda.belatedly(cycle, number, self._resume):
                agenda.due.append(self._resume)

    def _serve(self) -> Unit:  # noqa: C901, PLR0912, PLR0915  # the replay's inner loop: a call for each part would cost more than the part
        self._resume = me = yield
        agenda, due, units, number = self._agenda, self._agenda.due, self._agenda.later_units, self._agenda.number
        lane, gate, path, queues = self._lane, self._gate, self._path, self._queues
        is_open = gate.is_open
        denominator, response = lane.denominator, lane.response
        passed_turns = [0] * len(Channel)
        state, since = lane.idle, 0
        after = 0
        while True:
            work = self._work
            if not work:
                # To be resumed at the next issue would change nothing, unless something is to be moved by then.
                self._idle = True
                yield
                continue
            channel = _PICKS[after][work]
            after = channel + 1
            queue, passed = queues[channel], passed_turns[channel]
            transfer, done = queue[0]
            turns, count = transfer.turns, len(transfer.turns)
            # Turns before the next unit runs on, of a channel that is alone, pass at once.
            is_next = due[-1] is me
            horizon = (units[0][0] if units else NEVER) if is_next and work == 1 << channel else 0
            cycle = agenda.cycle
            if path is not None and path.user is not self:
                state = lane.repathed(state, max(0, path.busy - since * denominator))
                path.user = self
            if cycle > since:
                gap = cycle - since
                state = lane.idle if gap >= state.rest else state.waited.get(gap) or lane.waited(state, gap)
            if horizon and not passed and count > 1:
                turn = transfer.whole
                step = state.steps.get(turn) or lane.step(state, turn)
                if cycle + step.last_turn < horizon and (is_open or gate.lets_pass(step, turn, cycle)):
                    passed, state, since = count, step.after, cycle + step.issues[-1] + 1
            while passed < count:
                turn = turns[passed]
                step = (state.steps.get(turn) or lane.step(state, turn)) if is_open else gate.step(lane, state, turn, cycle)
                passed, state, since = passed + 1, step.after, cycle + step.issues[-1] + 1
                if passed == count or since >= horizon:
                    break
                cycle = since
            if path is not None:
                path.busy = state.path + since * denominator
            if passed < count:
                passed_turns[channel] = passed
            else:
                if done is not None:
                    heappush(units, (cycle + step.finish - response, number(), done))
                passed_turns[channel] = 0
                queue.popleft()
                if not queue:
                    self._work &= ~(1 << channel)
                    if not self._work:
                        self._next = since, number()
                        continue
            if is_next and (not units or units[0][0] > since):
                agenda.cycle, agenda.running = since, NEVER
            else:
                heappush(units, (since, number(), me))
                yield


Ports = tuple[tuple[Server, Server], tuple[Server, Server]]
"""Server of the reads and of the writes of either port."""


def make_ports(agenda: Agenda, memories: tuple[Memory, Memory], lanes: tuple[tuple[Lane, Lane], ...], timing: TimingParameters) -> Ports:
    """The ports before ``memories``; ``lanes`` are those of the reads and of the writes of either port."""

    def port(memory: Memory, reads: Lane, writes: Lane) -> tuple[Server, Server]:
        gate, path = Gate(memory, timing), Path() if memory.shared else None
        write_gate = gate if timing.shared_cap else Gate(memory, timing)
        return Server(agenda, reads, gate, path), Server(agenda, writes, write_gate, path)

    return port(memories[0], *lanes[0]), port(memories[1], *lanes[1])
