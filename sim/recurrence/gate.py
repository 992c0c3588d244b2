"""Gate: the twin of the timing adapter's gate, which answers for a whole turn at once where nothing is held back."""

from __future__ import annotations

from npu_model.memory import Memory
from sim.recurrence.lane import GatedTurn, Lane, State, Step, Turn

_NO_CAP = 1 << 62
"""More words than any replay moves."""

_KEPT_PERIODS = 64
"""Periods whose words are kept before those that are over are dropped."""


class Gate:
    """The gate before one port, or before one direction of it; without a pulse it is always open."""

    __slots__ = ("_cap", "_length", "_on", "_words", "is_open")

    def __init__(self, memory: Memory) -> None:
        pulse = memory.pulse
        self.is_open = pulse is None
        self._on, self._length, self._cap = (pulse.on, pulse.on + pulse.off, pulse.cap_words or _NO_CAP) if pulse else (1, 1, _NO_CAP)
        self._words: dict[int, int] = {}

    def passes(self, turn: Turn, step: Step, cycle: int) -> bool:
        """Whether a turn that starts in ``cycle`` passes unhindered, as in ``step``; if so, its words are counted."""
        length = self._length
        period = (cycle + step.first) // length
        words = self._words.get(period, 0)
        if words + turn.all_but_last >= self._cap or cycle + step.last - period * length >= self._on:
            return False
        if not words and len(self._words) > _KEPT_PERIODS:
            self._forget(cycle)
        self._words[period] = words + turn.words
        return True

    def _forget(self, cycle: int) -> None:
        """Drop the periods that are over."""
        now = cycle // self._length
        self._words = {period: count for period, count in self._words.items() if period >= now}

    def step(self, lane: Lane, state: State, turn: Turn, cycle: int) -> Step:
        """What a turn that starts in ``cycle`` does if the gate holds some of it back."""
        length = self._length
        now = cycle // length
        self._forget(cycle)
        words = self._words
        ahead = tuple(sorted((period - now, count) for period, count in words.items()))
        gated = turn, cycle - now * length, ahead
        found = state.gated.get(gated)
        if found is None:
            found = self._work_out(lane, state, gated)
        for period, count in found.admitted:
            words[now + period] = words.get(now + period, 0) + count
        return found

    def _work_out(self, lane: Lane, state: State, gated: GatedTurn) -> Step:
        _, phase, ahead = gated
        words = dict(ahead)

        def admit(time: int, count: int) -> int:
            time += phase
            period = time // self._length
            while words.get(period, 0) >= self._cap or time - period * self._length >= self._on:
                period += 1
                time = period * self._length
            words[period] = words.get(period, 0) + count
            return time - phase

        return lane.gated_step(state, gated, admit, words)
