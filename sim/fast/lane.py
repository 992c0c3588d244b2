"""Lane: one direction of a port as an automaton, so that what a turn of transactions does to it is worked out once.

How a turn goes depends on nothing but the cycles that the transactions before it still need. There are some hundred such states
in the replay of a network; a state remembers where each turn leads.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from npu_model.memory.system import Memory
from npu_model.timing import TimingParameters

Admit = Callable[[int, int], int]
"""A gate: the first cycle from a given one on at which a transaction of so many words may pass."""

_MAX_REMEMBERED = 100_000
"""Answers that a lane remembers before it forgets all: some tens of megabytes."""


class LaneTurn:
    """The data words of the transactions of one turn, or of several that nothing comes between: each, all, and all but the last.

    The last of several turns begins behind ``before_last`` transactions. Their words go on to the input buffer, which takes one in
    ``pace`` cycles (0: as they come). Equal turns are one object.
    """

    __slots__ = ("all_but_last", "beats", "before_last", "pace", "words")

    def __init__(self, beats: tuple[int, ...], before_last: int = 0, pace: int = 0) -> None:
        self.beats = beats
        self.before_last = before_last
        self.pace = pace
        self.words = sum(beats)
        self.all_but_last = self.words - beats[-1]


class Transfer(Struct, frozen=True):
    """The transactions of one transfer, turn by turn and all together; equal transfers are one object."""

    turns: tuple[LaneTurn, ...]
    whole: LaneTurn


class LaneStep(Struct, frozen=True):
    """Effect of a turn, in cycles from its start: the issues of its transactions, and its last completion.

    ``after`` is the lane one cycle after the last issue. ``last_turn`` is when the last turn starts if there are several.
    """

    issues: tuple[int, ...]
    last_turn: int
    finish: int
    after: State


class State(Struct, frozen=True, eq=False):
    """The work that a lane has left.

    ``finishes`` are the cycles until each of the last transactions is complete, oldest first, as many as may be outstanding.
    ``path`` is the time until the data path is free, in the lane's parts of a cycle; negative if it has been. ``filling`` are the cycles
    until the input buffer can take more. After ``rest`` cycles nothing is left.
    """

    finishes: tuple[int, ...]
    path: int
    filling: int
    rest: int
    steps: dict[LaneTurn, LaneStep] = field(default_factory=dict)
    waited: dict[int, State] = field(default_factory=dict)
    repathed: dict[int, State] = field(default_factory=dict)


class Lane:
    """Reads or writes of one memory; a data word takes ``numerator / denominator`` cycles of its path."""

    def __init__(self, memory: Memory, timing: TimingParameters, *, reads: bool) -> None:
        # Latency comes before the data of a read and after the data of a write.
        self._before, self.response = (memory.read_latency, 0) if reads else (0, memory.write_latency)
        self._lead = self._before + timing.lookahead
        self._limit = memory.max_reads if reads else memory.max_writes
        self._numerator, self.denominator = memory.cycles_per_word.as_integer_ratio()
        self._states: dict[tuple[tuple[int, ...], int, int], State] = {}
        self._remembered = 0
        self.idle = self._state((0,) * self._limit, 0)
        """The lane with nothing left to do."""

    def _state(self, finishes: tuple[int, ...], path: int, filling: int = 0) -> State:
        found = self._states.get((finishes, path, filling))
        if found is None:
            rest = max(-(-path // self.denominator), filling, *finishes, 0)
            found = self._states[finishes, path, filling] = State(finishes, path, filling, rest)
        return found

    def _remember(self) -> None:
        self._remembered += 1
        if self._remembered > _MAX_REMEMBERED:
            self._remembered = 0
            self._states.clear()
            self.idle = self._state((0,) * self._limit, 0)

    def waited(self, state: State, cycles: int) -> State:
        """The lane after fewer than ``state.rest`` cycles without a transaction."""
        self._remember()
        finishes = tuple([max(0, finish - cycles) for finish in state.finishes])
        found = state.waited[cycles] = self._state(finishes, max(0, state.path - cycles * self.denominator), max(0, state.filling - cycles))
        return found

    def repathed(self, state: State, path: int) -> State:
        """The lane after the other direction has used the data path, which is now busy for ``path`` parts of a cycle."""
        found = state.repathed.get(path)
        if found is None:
            self._remember()
            found = state.repathed[path] = self._state(state.finishes, path, state.filling)
        return found

    def step(self, state: State, turn: LaneTurn) -> LaneStep:
        """A turn of which the gate holds no transaction back."""
        self._remember()
        found = state.steps[turn] = self._issue(state, turn, None)
        return found

    def gated_step(self, state: State, turn: LaneTurn, admit: Admit) -> LaneStep:
        """A turn of which the gate holds some back."""
        self._remember()
        return self._issue(state, turn, admit)

    def _issue(self, state: State, turn: LaneTurn, admit: Admit | None) -> LaneStep:
        """Issue transactions as :mod:`sim.engine.ports` does: with a slot free, the path near and the gate open, one a cycle at most."""
        denominator, path, filling, pace = self.denominator, state.path, state.filling, turn.pace
        free = -(-path // denominator)
        finishes, issues = list(state.finishes), [-1]
        for number, words in enumerate(turn.beats):
            time = max(issues[-1] + 1, (max(free, filling) if pace else free) - self._lead)
            if self._limit:
                time = max(time, finishes[number])
            if admit is not None:
                time = admit(time, words)
            path = max(path, (time + self._before) * denominator) + words * self._numerator
            free = -(-path // denominator)
            issues.append(time)
            if pace:
                filling = max(filling, time + self._before) + pace * words
            finishes.append(max(free, filling) + self.response if pace else free + self.response)
        after = issues[-1] + 1
        left = tuple([max(0, finish - after) for finish in finishes[len(turn.beats) :]]) if self._limit else ()
        return LaneStep(
            tuple(issues[1:]),
            issues[turn.before_last] + 1,
            finishes[-1],
            self._state(left, path - after * denominator, max(0, filling - after)),
        )
