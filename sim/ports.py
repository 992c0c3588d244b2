"""The AXI ports: memories as servers of transactions, with latency, outstanding limits, bandwidth and a pulse gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from enum import IntEnum
from typing import Any

import simpy

from npu_model.memory import Memory, MemorySystem
from npu_model.traffic import BEAT_BYTES, Runs
from sim.clock import Clock

GRANT = 8
"""Transactions that one channel may issue before the next channel has its turn."""

IFM_BURST_DIVISOR = 2
"""IFM reads use half the burst limit: the FVP's cycles with memory latency fit reads of 32 bytes, not of 64."""

LOOKAHEAD = 16
"""Cycles that a transaction may be issued before the data path can take it, beyond the latency."""


_KEPT_PERIODS = 4
"""Periods whose counts the gate remembers; the two directions are never further apart."""


class Channel(IntEnum):
    """The DMA channels of the NPU, in arbitration order (PMCAXI_CHAN of the core driver)."""

    COMMANDS = 0
    IFM = 1
    WEIGHTS = 2
    SCALES = 3
    MEM2MEM = 4
    OFM = 5


class Completion(simpy.Event):
    """An event that the server triggers ahead of time: it fires at the cycle of the last response."""

    def fire_in(self, delay: int) -> None:
        """Schedule the event ``delay`` cycles from now."""
        # The two lines that simpy.Timeout runs when it is created; here the delay is known only later.
        self._ok, self._value = True, None
        self.env.schedule(self, delay=delay)


class PulseGate:
    """The timing adapter's gate, shared by the reads and writes of a port."""

    def __init__(self, memory: Memory) -> None:
        self._pulse = memory.pulse
        # A server may be a period ahead of the other one, so each period keeps its own count.
        self._words: dict[int, int] = {}

    def next_open(self, now: int) -> int:
        """First cycle from ``now`` on at which an address may pass."""
        pulse = self._pulse
        if pulse is None:
            return now
        length = pulse.on + pulse.off
        while True:
            period, phase = divmod(now, length)
            if phase < pulse.on and not (pulse.cap_words and self._words.get(period, 0) >= pulse.cap_words):
                return now
            now = (period + 1) * length

    def accept(self, now: int, words: int) -> None:
        """Count the data words of a transaction accepted at ``now``."""
        if self._pulse is None:
            return
        period = now // (self._pulse.on + self._pulse.off)
        if period not in self._words:
            self._words = {p: n for p, n in self._words.items() if p >= period - _KEPT_PERIODS}
        self._words[period] = self._words.get(period, 0) + words


class DataPath:
    """When a memory's data path is free, in fractions of a cycle so that any rate is exact."""

    def __init__(self, memory: Memory) -> None:
        self._numerator, self._denominator = memory.cycles_per_word.as_integer_ratio()
        self._free = 0

    @property
    def free(self) -> int:
        """First whole cycle at which the path is free."""
        return -(-self._free // self._denominator)

    def occupy(self, start: int, words: int) -> int:
        """Pass ``words`` from cycle ``start`` (or when the path is free); the cycle at which the last has passed."""
        self._free = max(self._free, start * self._denominator) + words * self._numerator
        return self.free


class _Request:
    """The runs of one transfer that are still to be cut into transactions of at most ``limit`` beats."""

    __slots__ = ("done", "left", "limit", "next", "runs")

    def __init__(self, runs: Runs, limit: int, done: Completion) -> None:
        self.runs = runs
        self.limit = limit
        self.done = done
        self.next = 1
        self.left = runs[0]

    @property
    def is_issued(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0

    def take(self) -> int:
        """Beats of the next transaction."""
        beats = min(self.left, self.limit)
        self.left -= beats
        if self.left == 0 and self.next < len(self.runs):
            self.left = self.runs[self.next]
            self.next += 1
        return beats


class PortServer:
    """One direction of one port: issues transactions, channel by channel in turn, and completes transfers."""

    def __init__(self, env: Clock, memory: Memory, gate: PulseGate, path: DataPath, *, reads: bool) -> None:
        self._env = env
        self._gate = gate
        self._path = path
        self._reads = reads
        self._latency = memory.read_latency if reads else memory.write_latency
        self._limit = memory.max_reads if reads else memory.max_writes
        self._burst_beats = memory.burst_bytes // BEAT_BYTES
        self._outstanding: deque[int] = deque()
        self._queues: tuple[deque[_Request], ...] = tuple(deque() for _ in Channel)
        self._turn = 0
        self._wake: simpy.Event | None = None
        self.beats = 0
        env.process(self._serve())

    def transfer(self, channel: Channel, runs: Runs) -> Completion:
        """Queue the transactions of one transfer; the event fires with the last data word read or response received."""
        done = Completion(self._env)
        if not runs:
            done.fire_in(0)
            return done
        limit = self._burst_beats // IFM_BURST_DIVISOR if channel is Channel.IFM else self._burst_beats
        self._queues[channel].append(_Request(runs, limit, done))
        if self._wake is not None and not self._wake.triggered:
            self._wake.succeed()
        return done

    def _pick(self) -> deque[_Request] | None:
        """The next channel in turn that has work."""
        for i in range(len(self._queues)):
            turn = (self._turn + i) % len(self._queues)
            if self._queues[turn]:
                self._turn = (turn + 1) % len(self._queues)
                return self._queues[turn]
        return None

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            queue = self._pick()
            if queue is None:
                self._wake = self._env.event()
                yield self._wake
                continue
            yield self._env.timeout(self._grant(queue) + 1 - self._env.cycle)

    def _grant(self, queue: deque[_Request]) -> int:
        """Issue up to GRANT transactions of a channel, one a cycle at most; the cycle of the last issue."""
        request = queue[0]
        time = finish = self._env.cycle - 1
        for _ in range(GRANT):
            time = self._issue_time(time + 1)
            finish = self._issue(time, request.take())
            if request.is_issued:
                queue.popleft()
                request.done.fire_in(finish - self._env.cycle)
                break
        return time

    def _issue_time(self, time: int) -> int:
        """First cycle from ``time`` on at which a slot is free, the path is near and the gate open."""
        outstanding = self._outstanding
        if self._limit and len(outstanding) >= self._limit:
            time = max(time, outstanding[0])
        lead = LOOKAHEAD + (self._latency if self._reads else 0)
        return self._gate.next_open(max(time, self._path.free - lead))

    def _issue(self, time: int, words: int) -> int:
        """Account for a transaction accepted at ``time``; the cycle at which it is complete."""
        outstanding = self._outstanding
        while outstanding and outstanding[0] <= time:
            outstanding.popleft()
        self._gate.accept(time, words)
        self.beats += words
        latency = self._latency
        finish = self._path.occupy(time + latency, words) if self._reads else self._path.occupy(time, words) + latency
        if self._limit:
            outstanding.append(finish)
        return finish


class Ports:
    """Both AXI ports of the NPU."""

    def __init__(self, env: Clock, system: MemorySystem) -> None:
        self.system = system
        self.reads: list[PortServer] = []
        self.writes: list[PortServer] = []
        for memory in system.ports:
            gate = PulseGate(memory)
            path = DataPath(memory)
            self.reads.append(PortServer(env, memory, gate, path, reads=True))
            self.writes.append(PortServer(env, memory, gate, path if memory.shared else DataPath(memory), reads=False))

    def read(self, region: int, channel: Channel, runs: Runs) -> Completion:
        """Read from a base-pointer region."""
        return self.reads[self.system.port_of(region)].transfer(channel, runs)

    def write(self, region: int, channel: Channel, runs: Runs) -> Completion:
        """Write to a base-pointer region."""
        return self.writes[self.system.port_of(region)].transfer(channel, runs)

    def fetch_commands(self, runs: Runs) -> Completion:
        """Read from the command stream."""
        return self.reads[self.system.command_port].transfer(Channel.COMMANDS, runs)
