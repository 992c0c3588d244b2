"""Gate: the twin of the timing adapter's gate, which answers for a whole turn at once where nothing is held back."""

from __future__ import annotations

from npu_model.memory.system import Memory
from sim.fast.lane import GatedTurn, Lane, State, Step, Turn

_NO_CAP = 1 << 62
"""More words than any replay moves."""

_KEPT_PERIODS = 8
"""Periods whose words are kept before those that are over are dropped."""


class Gate:
    """The gate before one port, or before one direction of it; without a pulse it is always open.

    Addresses pass in the first ``on`` cycles of every period of ``length`` until ``cap`` words have passed; ``words`` are those of each
    period. The server itself counts a turn that passes unhindered (:mod:`sim.fast.ports`).
    """

    __slots__ = ("cap", "is_open", "length", "on", "words")

    def __init__(self, memory: Memory) -> None:
        pulse = memory.pulse
        self.is_open = pulse is None
        self.on, self.length, self.cap = (pulse.on, pulse.on + pulse.off, pulse.cap_words or _NO_CAP) if pulse else (1, 1, _NO_CAP)
        self.words: dict[int, int] = {}

    def forget(self, cycle: int) -> None:
        """Drop the periods that are over, if there are many."""
        if len(self.words) > _KEPT_PERIODS:
            now = cycle // self.length
            for period in [period for period in self.words if period < now]:
                del self.words[period]

    def step(self, lane: Lane, state: State, turn: Turn, cycle: int) -> Step:
        """The step of a turn that starts in ``cycle`` if the gate holds some of the turn back."""
        self.forget(cycle)
        words, now = self.words, cycle // self.length
        ahead = tuple(sorted([(period - now, count) for period, count in words.items() if period >= now]))
        gated = turn, cycle - now * self.length, ahead
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
            period = time // self.length
            while words.get(period, 0) >= self.cap or time - period * self.length >= self.on:
                period += 1
                time = period * self.length
            words[period] = words.get(period, 0) + count
            return time - phase

        return lane.gated_step(state, gated, admit, words)
