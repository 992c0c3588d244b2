"""The AXI ports: memories as servers of transactions, with latency, outstanding limits, bandwidth and a pulse gate."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Generator
from fractions import Fraction
from operator import itemgetter
from typing import Any

import simpy
from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.traffic import Runs
from npu_model.memory.system import Memory, MemorySystem
from npu_model.timing import TimingParameters
from sim.engine.clock import Clock
from sim.engine.terms import Channel, burst_beats

_NO_CAP = 1 << 62
"""A number of words that no replay reaches."""


class Completion(simpy.Event):
    """An event that the server triggers in advance. It fires at the cycle of the last response."""

    def fire_in(self, delay: int) -> None:
        """Schedule the event ``delay`` cycles from now."""
        # The two lines that simpy.Timeout runs when it is created; here the delay is known only later.
        self._ok, self._value = True, None
        self.env.schedule(self, delay=delay)

    def call(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the event fires."""
        self.callbacks.append(lambda _: action())


class PulseGate:
    """The timing adapter's gate, shared by the reads and writes of a port.

    A transaction passes if fewer words than the cap have passed in the period before it, in both directions. So no period contains more
    than the cap and the one transaction that crosses it.
    """

    def __init__(self, memory: Memory, timing: TimingParameters) -> None:
        pulse = memory.pulse
        self._is_open = pulse is None
        self._on, self._length, self._cap = (pulse.on, pulse.on + pulse.off, pulse.cap_words or _NO_CAP) if pulse else (0, 0, 0)
        self._slides = timing.sliding_cap
        # Cycle and words of passed transfers that still count, soonest first; one direction may be ahead of the other one.
        self._passed: deque[tuple[int, int]] = deque()
        self._words = self._earliest = 0

    def admit(self, time: int, words: int) -> int:
        """Let the address of a transaction of ``words`` pass; return the first possible cycle from ``time`` on."""
        if self._is_open:
            return time
        while self._words >= self._cap:
            since, less = self._passed.popleft()
            self._words -= less
            self._earliest = since + self._length
        time = max(time, self._earliest)
        phase = time % self._length
        if phase >= self._on:
            time, phase = time + self._length - phase, 0
        if self._cap < _NO_CAP:
            self._words += words
            insort(self._passed, (time if self._slides else time - phase, words), key=itemgetter(0))
        return time


class DataPath:
    """The next free cycle of a data path, as a fraction so that any rate is exact. A word takes ``cycles_per_word``."""

    def __init__(self, cycles_per_word: Fraction | int) -> None:
        self._numerator, self._denominator = cycles_per_word.as_integer_ratio()
        self._exact = 0
        self.free = 0
        """First whole cycle at which the path is free."""

    def occupy(self, start: int, words: int) -> int:
        """Pass ``words`` from cycle ``start`` (or when the path is free); return the cycle of the last one."""
        denominator = self._denominator
        self._exact = max(self._exact, start * denominator) + words * self._numerator
        self.free = free = -(-self._exact // denominator)
        return free


def transactions(runs: Runs, limit: int, phase: int = 0) -> list[int]:
    """Beats of the transactions that move ``runs``, at most ``limit`` each.

    The first run starts ``phase`` words after a multiple of ``limit``, which its transactions do not cross. The others start on a multiple.

    >>> transactions((3, 10), 4)
    [3, 4, 4, 2]
    >>> transactions((10,), 4, phase=3)
    [1, 4, 4, 1]
    """
    head = min(-phase % limit, runs[0])
    pieces = [min(limit, run - done) for run in (runs[0] - head, *runs[1:]) for done in range(0, run, limit)]
    return [head, *pieces] if head else pieces


class _Request(Struct, frozen=True):
    """The remaining transactions of one transfer, last first, the event that completes it, and the input's pace."""

    beats: list[int]
    done: Completion
    pace: int


class PortServer:
    """One direction of one port: issues transactions, channel by channel in turn, and completes transfers."""

    def __init__(  # noqa: PLR0913  # a port has the limits of its memory
        self, env: Clock, memory: Memory, gate: PulseGate, path: DataPath, timing: TimingParameters, device: Accelerator, *, reads: bool
    ) -> None:
        self._env = env
        self._gate = gate
        self._path = path
        # Words of the IFM continue to the input buffer, at the buffer's pace: the time at which it can take more.
        self._filled = 0
        self._grants = timing.grant
        # Latency comes before the data of a read and after the data of a write.
        self._before, self.response = (memory.read_latency, 0) if reads else (0, memory.write_latency)
        self._lead = self._before + timing.lookahead
        self._limit = memory.max_reads if reads else memory.max_writes
        self._burst_beats = {channel: burst_beats(memory, channel, device, timing) for channel in Channel}
        self._outstanding: deque[int] = deque()
        self._queues: tuple[deque[_Request], ...] = tuple(deque() for _ in Channel)
        self._turn = 0
        self._wake: simpy.Event | None = None
        self.beats = 0
        env.process(self._serve())

    def transfer(self, channel: Channel, runs: Runs, phase: int = 0, pace: int = 0) -> Completion:
        """Queue the transactions of one transfer.

        The event fires with the last data word that is read, or passed on for a write. The response to a write follows :attr:`response`
        cycles later. ``phase`` is the word address of the first run, for alignment. ``pace`` is the cycles per word at the input buffer, 0
        for no limit.
        """
        done = Completion(self._env)
        if not runs:
            done.fire_in(0)
            return done
        self._queues[channel].append(_Request(transactions(runs, self._burst_beats[channel], phase)[::-1], done, pace))
        if self._wake is not None and not self._wake.triggered:
            self._wake.succeed()
        return done

    def _pick(self) -> Channel | None:
        """The next channel in turn that has a request."""
        for i in range(len(self._queues)):
            turn = (self._turn + i) % len(self._queues)
            if self._queues[turn]:
                self._turn = (turn + 1) % len(self._queues)
                return Channel(turn)
        return None

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            channel = self._pick()
            if channel is None:
                self._wake = self._env.event()
                yield self._wake
                continue
            yield self._env.timeout(self._grant(channel) + 1 - self._env.cycle)

    def _grant(self, channel: Channel) -> int:
        """Issue the transactions of one channel's turn, at most one a cycle; return the cycle of the last issue."""
        queue = self._queues[channel]
        request = queue[0]
        time = self._env.cycle - 1
        for _ in range(self._grants):
            time, finish = self._issue(time + 1, request.beats.pop(), request.pace)
            if not request.beats:
                queue.popleft()
                request.done.fire_in(finish - self.response - self._env.cycle)
                break
        return time

    def _issue(self, time: int, words: int, pace: int) -> tuple[int, int]:
        """Issue a transaction at the first cycle from ``time`` on with a free slot, a path that is soon free, and an open gate.

        Its words continue to the input buffer if there is a ``pace``. Returns the cycles of its issue and of its end, with the last data
        word read or the response.
        """
        outstanding, path = self._outstanding, self._path
        if self._limit and len(outstanding) >= self._limit:
            time = max(time, outstanding[0])
        near = max(path.free, self._filled) if pace else path.free
        time = self._gate.admit(max(time, near - self._lead), words)
        finish = path.occupy(time + self._before, words) + self.response
        if pace:
            self._filled = max(self._filled, time + self._before) + pace * words
            finish = max(finish, self._filled)
        if self._limit:
            while outstanding and outstanding[0] <= time:
                outstanding.popleft()
            outstanding.append(finish)
        self.beats += words
        return time, finish


class Ports:
    """Both AXI ports of the NPU ``device``, by default a U55."""

    def __init__(self, env: Clock, system: MemorySystem, timing: TimingParameters, device: Accelerator | None = None) -> None:
        device = device or accelerator()
        self.system = system
        self.reads: list[PortServer] = []
        self.writes: list[PortServer] = []
        for memory in system.ports:
            gate, path = PulseGate(memory, timing), DataPath(memory.cycles_per_word)
            write_gate = gate if timing.shared_cap else PulseGate(memory, timing)
            write_path = path if memory.shared else DataPath(memory.cycles_per_word)
            self.reads.append(PortServer(env, memory, gate, path, timing, device, reads=True))
            self.writes.append(PortServer(env, memory, write_gate, write_path, timing, device, reads=False))

    def read(self, region: int, channel: Channel, runs: Runs, phase: int = 0) -> Completion:
        """Read from a base-pointer region."""
        return self.reads[self.system.port_of(region)].transfer(channel, runs, phase)

    def load(self, region: int, runs: Runs, pace: int) -> Completion:
        """Read from a base-pointer region into the input buffer, at ``pace`` cycles a word."""
        return self.reads[self.system.port_of(region)].transfer(Channel.IFM, runs, pace=pace)

    def write(self, region: int, channel: Channel, runs: Runs, phase: int = 0) -> Completion:
        """Write to a base-pointer region."""
        return self.writes[self.system.port_of(region)].transfer(channel, runs, phase)

    def response(self, region: int) -> int:
        """Cycles from the last data word of a write to a region to its response."""
        return self.writes[self.system.port_of(region)].response

    def fetch_commands(self, runs: Runs) -> Completion:
        """Read from the command stream."""
        return self.reads[self.system.command_port].transfer(Channel.COMMANDS, runs)
