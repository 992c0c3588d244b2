"""The port of the constants: when so many of its words have passed at the earliest, from a Program's beginning on or from later."""

from __future__ import annotations

from math import floor

from cascader.ethosu.network.network import ARENA, CONSTANTS
from cascader.ethosu.search.bound import Pace
from npu_model.memory.system import MemorySystem
from npu_model.shapes import ceil_div
from npu_model.values import dataclass

_FETCH_BEATS = 8
_COMMANDS_PER_BEAT = 2


@dataclass(frozen=True, slots=True)
class HomePort:
    """The port that reads the constants: its gate opens anew with each ``period`` (0: it has none) and lets ``capped`` words pass in it.

    Words are counted in turns: those of the first period are turns 0 to ``capped`` - 1, and so on, whether a word takes the turn or not.
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

    @classmethod
    def of(cls, system: MemorySystem) -> HomePort:
        """The port of a memory system's constants."""
        home, arena = system.ports[system.port_of(CONSTANTS)], system.ports[system.port_of(ARENA)]
        pace, commands = Pace.of(home), system.ports[system.command_port]
        fetch = commands.read_latency + floor(_FETCH_BEATS * commands.cycles_per_word)
        fetches = system.command_port == system.port_of(CONSTANTS)
        copied = home.read_latency + arena.write_latency
        return cls(pace.cycles_per_word.as_integer_ratio(), pace.period, pace.capped, home.read_latency, copied, fetches, fetch)

    def passed(self, words: int) -> int:
        """Cycles from a period's beginning on until the last of so many words is there at least.

        >>> port = HomePort((1, 1), 400, 57, 64, 96, fetches=True, fetch=72)
        >>> port.passed(0), port.passed(50), port.passed(58)
        (0, 114, 464)
        """
        if not words:
            return 0
        return self.read + max((ceil_div(words, self.capped) - 1) * self.period, words * self.pace[0] // self.pace[1])

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
        """Words of this port that so many words of commands take."""
        return ceil_div(commands, _COMMANDS_PER_BEAT) if self.fetches else 0

    def fetched(self, commands: int) -> int:
        """Cycles from a Program's beginning on until so many words of commands are there: all fetches but the last are whole."""
        return commands // (_FETCH_BEATS * _COMMANDS_PER_BEAT) * self.fetch
