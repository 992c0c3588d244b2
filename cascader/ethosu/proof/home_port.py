"""The port of the constants: when so many of its words have passed at the earliest, from a Program's beginning on or from later."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from msgspec import Struct

from cascader.ethosu.network.network import ARENA, CONSTANTS
from cascader.ethosu.proof.chains import least_read
from cascader.ethosu.search.bound import Pace
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import Memory, MemorySystem
from npu_model.shapes import ceil_div

_FETCH_BEATS = 8
_COMMANDS_PER_BEAT = 2

_ENDS = 8
"""Transactions whose ends are kept: more that may be outstanding hold up none."""

_LARGEST = 1 << 20
"""Largest number of a pace that is counted with: a finer one is rounded down."""

Issued = tuple[int, ...]
"""State of a port: the cycle of the last issue, words in its period, when the data path is free in parts of a cycle, and the
ends of the last transactions, the newest first."""

ENDS = 3
"""Place of the newest end."""

NOT_ISSUED: Issued = (-1, 0, 0, *[-(1 << 40)] * _ENDS)
"""Before the first transaction."""


def _spare(home: Memory, even: int) -> int:
    """Words by which a period with odd transactions may hold more than one of which all transactions are multiples of ``even`` words."""
    burst = max(1, home.burst_bytes // BEAT_BYTES)
    return (home.pulse.cap_words - 1) % even if home.pulse and home.pulse.cap_words and burst % even == 0 else 0


class HomePort(Struct, frozen=True):
    """The port that reads the constants: its gate opens anew with each ``period`` (0: it has none) and lets ``capped`` words pass in it.

    Words are counted in turns: those of the first period are turns 0 to ``capped`` - 1, and so on, whether a word takes the turn or not.
    Only where an odd transaction passes, one that is no multiple of ``even`` words, may ``spare`` words more pass in a period. So each of
    these counts for so many words less.
    """

    pace: tuple[int, int]
    """Cycles and words that they take at least."""
    period: int
    capped: int
    read: int
    """Cycles from a word's turn until it is there."""
    copied: int
    """Cycles from the turn of a copy's last word until a kernel may begin that waits for the copy."""
    fetches: bool
    """Whether the command stream comes through this port, too."""
    fetch: int
    """Cycles of a fetch of commands, which comes one after the other."""
    last_fetch: int = 0
    """Cycles of a fetch of one word at least."""
    ends: tuple[int, ...] = ()
    """Cycles until the last of no words, of one word, and so on is there, those that pass in one period."""
    flat: tuple[int, ...] = ()
    """For single transactions: words after which the gate closes, cycles of a period for which it may be open, and the period (0: no gate).

    Then reads that may be outstanding (0: any number), latency, cycles and words that take so many, and cycles by which an issue may be
    ahead of the data path.
    """
    even: int = 1
    spare: int = 0

    @classmethod
    def of(cls, system: MemorySystem, lookahead: int, even: int = 1) -> HomePort:
        """The port of a memory system's constants, of which a transaction may be issued so many cycles ahead of the data path.

        Copies and fetches of commands are multiples of ``even`` words.
        """
        home, arena = system.ports[system.port_of(CONSTANTS)], system.ports[system.port_of(ARENA)]
        pace, commands = Pace.of(home), system.ports[system.command_port]
        fetch = commands.read_latency + floor(_FETCH_BEATS * commands.cycles_per_word)
        fetches = system.command_port == system.port_of(CONSTANTS)
        copied = home.read_latency + arena.write_latency
        cycles, words = pace.cycles_per_word.as_integer_ratio()
        moving = (cycles, words) if words <= _LARGEST else (cycles // words, 1)
        gate = (home.pulse.cap_words, home.pulse.on, pace.period) if home.pulse and pace.period else (0, 0, 0)
        outstanding = home.max_reads if home.max_reads <= _ENDS else 0
        flat = *gate, outstanding, home.read_latency, *moving, home.read_latency + lookahead
        last = commands.read_latency + floor(commands.cycles_per_word)
        ends = 0, *(least_read(home, count) for count in range(1, pace.capped + 1))
        spare = _spare(home, even) if pace.period else 0
        return cls(
            (cycles, words), pace.period, pace.capped - spare, home.read_latency, copied, fetches, fetch, last, ends, flat, even, spare
        )

    def issue(self, issued: Issued, request: int, words: int) -> Issued:
        """Issue a transaction of so many words that is asked for at a cycle as the port's server does: the first cycle that may be.

        >>> port = HomePort((1, 1), 400, 57, 64, 96, fetches=True, fetch=72, flat=(50, 320, 400, 2, 64, 1, 1, 320))
        >>> port.issue(NOT_ISSUED, 100, 8)[:4], port.issue((150, 50, *NOT_ISSUED[2:]), 160, 8)[:4]
        ((100, 8, 172, 172), (400, 8, 472, 472))
        """
        (cap, on, length, outstanding, latency, cycles, parts, ahead), (before, passed, path, *ends) = self.flat, issued
        time = max(request, before + 1, ceil_div(path, parts) - ahead, ends[outstanding - 1] if outstanding else request)
        if length:
            period = time // length
            passed = passed if period == before // length else 0
            if passed >= cap or time - period * length >= on:
                time, passed = (period + 1) * length, 0
            passed += words
        path = max(path, (time + latency) * parts) + words * cycles
        return time, passed, path, ceil_div(path, parts), *ends[:-1]

    def least(self, ways: Sequence[Issued]) -> Issued:
        """Least that has been issued in any of some ways."""
        time, _, *rest = map(min, *ways, ways[0])
        length = self.flat[2] or 1
        return time, min((way[0] // length, way[1]) for way in ways)[1], *rest

    def passed(self, words: int) -> int:
        """Cycles from a period's beginning on until the last of so many words is there at least.

        >>> port = HomePort((1, 1), 400, 57, 64, 96, fetches=True, fetch=72, ends=(0, *range(65, 122)))
        >>> port.passed(0), port.passed(50), port.passed(58)
        (0, 114, 465)
        """
        return self._passed(words, self.capped)

    def passed_anyhow(self, words: int) -> int:
        """As :meth:`passed` if each word counts, as any transaction may be odd."""
        return self._passed(words, self.capped + self.spare)

    def _passed(self, words: int, capped: int) -> int:
        if not words:
            return 0
        whole = (words - 1) // capped
        return max(whole * self.period + self.ends[words - whole * capped], self.read + words * self.pace[0] // self.pace[1])

    def begun(self, turn: int) -> int:
        """Cycles until the period of a turn begins, or without a gate until the words before it have passed.

        So that the words behind it are there after ``begun(turn) + passed(words)`` cycles at least.
        """
        return turn // self.capped * self.period if self.period else turn * self.pace[0] // self.pace[1]

    def turn(self, cycle: int) -> int:
        """The first turn that may come at a cycle or later."""
        if self.period:
            return cycle // self.period * self.capped
        return cycle * self.pace[1] // self.pace[0] if self.pace[0] else 0

    def copy(self, words: int) -> int:
        """Cycles from a Program's beginning on after which a kernel may begin that waits for the last of so many words of copies."""
        return self.passed(words) + self.copied - self.read if words else 0

    def beats(self, commands: int) -> int:
        """Words of this port that so many words of commands take; the last fetch of all may be odd."""
        return max(0, ceil_div(commands, _COMMANDS_PER_BEAT) - self.spare) if self.fetches else 0

    def fetched(self, commands: int) -> int:
        """Cycles from a Program's beginning on until so many words of commands are there: all fetches but the last are whole.

        >>> port = HomePort((1, 1), 400, 57, 64, 96, fetches=True, fetch=72, last_fetch=65)
        >>> port.fetched(0), port.fetched(16), port.fetched(17)
        (0, 65, 137)
        """
        return (ceil_div(commands, _FETCH_BEATS * _COMMANDS_PER_BEAT) - 1) * self.fetch + self.last_fetch if commands else 0
