"""The gate before the arena's port: how long transfers within the arena take at least, one after the other, if nothing else passes it.

A gate lets so many words pass in each period, reads and writes together, and a transfer passes each of its words twice.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from msgspec import Struct

from cascader.ethosu.network.network import ARENA
from cascader.ethosu.proof.least_flow import LONG_AGO
from cascader.ethosu.search.bound import Pace
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters


class Gated(NamedTuple):
    """Words of transfers that have passed the gate.

    Counted in turns, those of the gate's first period are turns 0 and so on, whether a word takes the turn or not; negative: nobody knows
    where in a period cycle 0 is. So many words have passed since cycle ``begin``, and ``behind`` ones since cycle 0.
    """

    turns: int = 0
    begin: int = LONG_AGO
    words: int = 0
    behind: int = 0


OPEN = Gated()
"""At a Program's beginning."""

UNPHASED = Gated(turns=-1)
"""Before jobs of which it is not known when they begin."""


class ArenaGate(Struct, frozen=True):
    """The gate of the arena: in each ``period`` (0: there is none that is of account) ``capped`` words may pass.

    ``each`` word of a transfer passes so many times, and takes so many ``cycles`` in either direction. The gate may be so many words
    ``ahead`` of the data.
    """

    period: int
    capped: int
    each: int
    cycles: int
    ahead: int

    @classmethod
    def of(cls, system: MemorySystem, timing: TimingParameters) -> ArenaGate:
        """The gate of a memory system."""
        arena = system.ports[system.port_of(ARENA)]
        pace, burst, each = Pace.of(arena), max(1, arena.burst_bytes // BEAT_BYTES), 2 if timing.shared_cap else 1
        lead = ceil((arena.read_latency + timing.lookahead) / arena.cycles_per_word)
        ahead = sum(burst * most if most else lead + burst for most in (arena.max_reads, arena.max_writes)[:each])
        is_binding = pace.capped * pace.cycles_per_word <= each * pace.period
        return cls(pace.period if is_binding else 0, pace.capped, each, floor(pace.cycles_per_word), ahead)

    def passed(self, gated: Gated, begin: int, words: int, origin: int) -> tuple[int, Gated]:
        """The cycle at which a transfer of so many words that begins at a cycle has passed at the earliest, and what has passed then.

        The Program began at cycle ``origin``.
        """
        words *= self.each
        behind = gated.behind + (words if begin >= 0 else 0)
        if not self.period:
            return begin, gated
        if gated.turns >= 0:
            turns = max(gated.turns, self._turn(begin - origin)) + words
            return origin + self._end(turns), Gated(turns, behind=behind)
        fresh, further = begin + self._least(words), gated.begin + self._least(gated.words + words)
        if fresh > further:
            return fresh, Gated(-1, begin, words, behind)
        return further, Gated(-1, gated.begin, gated.words + words, behind)

    def later(self, gated: Gated, cycle: int, words: int) -> int:
        """Cycles of a Program until so many words more have passed, none of them before a cycle of it; words as :class:`Gated` has them."""
        return self._end(max(gated.turns, self._turn(cycle)) + words) if words and self.period else 0

    def _turn(self, cycle: int) -> int:
        """The first turn that may come at a cycle or later: only so many are left of its period."""
        number, passed = divmod(cycle, self.period)
        left = self.ahead + (self.period - passed) * self.each // self.cycles if self.cycles else self.capped
        return (number + 1) * self.capped - min(self.capped, left)

    def _end(self, turns: int) -> int:
        """The cycle at which the data of so many turns have passed."""
        full = max(0, turns - 1) // self.capped
        return full * self.period + (turns - full * self.capped) * self.cycles // self.each

    def _least(self, words: int) -> int:
        """Cycles in which so many words pass, wherever in a period the first does: the first and the last one need not be whole."""
        whole = max(0, ceil_div(words, self.capped) - 2)
        return whole * self.period + max(0, words - whole * self.capped - self.ahead) * self.cycles // self.each
