"""Gate: the twin of the timing adapter's gate, which answers for a whole turn at once where nothing is held back."""

from __future__ import annotations

from collections import deque

from npu_model.memory.system import Memory
from npu_model.timing import TimingParameters
from sim.fast.lane import Lane, LaneStep, LaneTurn, State

_NO_CAP = 1 << 62
"""More words than any replay moves."""


class Gate:
    """The gate before one port, or before one direction of it; without a pulse it is always open.

    Addresses pass in the first ``on`` cycles of every period of ``length`` while fewer than ``cap`` words count: those of ``passed``, cycle
    and words, soonest first. The oldest of them no longer count from a period later on, which the gate waits for.
    """

    __slots__ = ("_cap", "_earliest", "_length", "_on", "_passed", "_slides", "_words", "is_open")

    def __init__(self, memory: Memory, timing: TimingParameters) -> None:
        pulse = memory.pulse
        self.is_open = pulse is None
        self._on, self._length, self._cap = (pulse.on, pulse.on + pulse.off, pulse.cap_words or _NO_CAP) if pulse else (1, 1, _NO_CAP)
        self._slides = timing.sliding_cap
        self._passed: deque[tuple[int, int]] = deque()
        self._words = self._earliest = 0

    def step(self, lane: Lane, state: State, turn: LaneTurn, cycle: int) -> LaneStep:
        """The step of a turn that starts in ``cycle``."""
        step = state.steps.get(turn) or lane.step(state, turn)
        if self.lets_pass(step, turn, cycle):
            return step
        return lane.gated_step(state, turn, lambda time, words: self._admit(cycle + time, words) - cycle)

    def lets_pass(self, step: LaneStep, turn: LaneTurn, cycle: int) -> bool:
        """Whether a turn that starts in ``cycle`` passes as if there were no gate: its words are counted then."""
        first, last = cycle + step.issues[0], cycle + step.issues[-1]
        start = first % self._length
        if first < self._earliest or start + last - first >= self._on:
            return False
        too_many, earliest, over = self._words + turn.all_but_last - self._cap, self._earliest, 0
        for since, words in self._passed if too_many >= 0 else ():
            if too_many < 0:
                break
            over, earliest, too_many = over + 1, since + self._length, too_many - words
        if earliest > first or too_many >= 0:
            return False
        self._earliest = earliest
        for _ in range(over):
            self._words -= self._passed.popleft()[1]
        self._count(cycle, step, turn, first - start)
        return True

    def _count(self, cycle: int, step: LaneStep, turn: LaneTurn, begin: int) -> None:
        if self._cap == _NO_CAP:
            return
        self._words += turn.words
        for issue, words in zip(step.issues, turn.beats, strict=True):
            self._insert(cycle + issue if self._slides else begin, words)

    def _insert(self, since: int, words: int) -> None:
        passed, later = self._passed, []
        while passed and passed[-1][0] > since:
            later.append(passed.pop())
        passed.append((since, words))
        passed.extend(reversed(later))

    def _admit(self, time: int, count: int) -> int:
        while self._words >= self._cap:
            since, words = self._passed.popleft()
            self._words -= words
            self._earliest = since + self._length
        time = max(time, self._earliest)
        phase = time % self._length
        if phase >= self._on:
            time, phase = time + self._length - phase, 0
        if self._cap < _NO_CAP:
            self._words += count
            self._insert(time if self._slides else time - phase, count)
        return time
