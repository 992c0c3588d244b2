"""State of a proof behind some jobs: least times of the units, what has passed the port of the constants, and what is left."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.proof.arena_gate import OPEN, Gated
from cascader.ethosu.proof.chosen_blocks import CUT, UNKNOWN, Chain, KernelJob
from cascader.ethosu.proof.home_port import NOT_ISSUED, Issued
from cascader.ethosu.proof.least_flow import START, FlowTimes, LeastFlow
from cascader.ethosu.proof.least_step import with_least
from cascader.plan.depth_first import StripeJob
from npu_model.program import KernelOperation

Staged = frozenset[int]

FINISH, MOVED = 3, 4
"""Places of the last cycles of a :class:`Rest`."""


class Rest(NamedTuple):
    """Cycles that some parts take at least from the moment on at which the input load, the MACs, the output unit or all units are free.

    ``moved`` are those from the moment on at which the DMA is done with all transfers within the arena. So many ``words`` pass the arena's
    gate in transfers after the moment at which all units are free.
    """

    load: int
    mac: int
    output: int
    finish: int
    moved: int
    words: int


NO_REST = Rest(0, 0, 0, 0, 0, 0)
"""Behind the last part."""

NO_WAY = Rest._make([1 << 60] * len(Rest._fields))
"""No way leads on."""

After = Callable[["ProofState", Sequence[StripeJob]], "ProofState"]
"""Puts jobs behind a state."""


class BlockKernel(Struct, frozen=True, eq=False):
    """A job in one of its blocks, with the flow of its work."""

    operation: KernelOperation
    flow: LeastFlow


Kernels = tuple[BlockKernel, ...]
"""A job in each of its blocks; none before the first job."""

Made = tuple[Kernels, "array[int]"]
"""A job in each of its blocks with the times of each, and then the least of each time."""


def made_at(times: Sequence[int]) -> Made:
    """Before a job, at these times."""
    return (), with_least(times)


NEWEST = 8
"""Copies and reads of kernels of which it is known when they may come first."""


class PortTraffic(NamedTuple):
    """Traffic that has passed the port of the constants when the MACs of some jobs are done.

    These are so many ``words`` of constants at least, in so many ``turns`` of the port, beside ``spared`` ones of odd transactions that do
    not count; ``copies`` are the turns that the copier alone has taken; ``copied`` are the parts whose copies are there. Besides, so many
    words of ``commands`` were fetched. ``issued`` are the transactions of kernels alone. ``newest`` has of the last copies and of the last
    kernels that read there the first turn that may be theirs and their words.
    """

    words: int = 0
    turns: int = 0
    copies: int = 0
    commands: int = 0
    copied: Staged = frozenset()
    issued: Issued = NOT_ISSUED
    newest: tuple[tuple[int, int], ...] = ()
    spared: int = 0

    def read(self, before: int, words: int, spared: int) -> PortTraffic:
        """The traffic with that of a kernel that takes no turn ``before`` one; of its words some are ``spared``."""
        words -= spared
        newest = (*self.newest[1 - NEWEST :], (before, words))
        return self._replace(words=self.words + words, turns=before + words, newest=newest, spared=self.spared + spared)

    def copy(self, first: int, size: int, source: int) -> PortTraffic:
        """The traffic with that of a copy, no word of which takes a turn before ``first``.

        All that takes no turn before some one ends as many turns later at least as there are words.
        """
        newest = (*self.newest[1 - NEWEST :], (first, size))
        ends = (at + sum(words for begin, words in newest if begin >= at) for at, _ in newest if at <= first)
        turns = max(self.turns, *ends)
        return self._replace(words=self.words + size, turns=turns, copies=first + size, copied=self.copied | {source}, newest=newest)


class Done(NamedTuple):
    """A kernel that has finished at a cycle at the earliest, with the words of constants that have passed their port by then."""

    cycle: int
    words: int


class Past(NamedTuple):
    """A job that is made: its last cycle at the earliest, bytes of tensors that are live at it, the copy that it reads, those before."""

    job: StripeJob
    cycle: int
    live: int
    copy: int | None
    before: Past | None


class Sent(NamedTuple):
    """A transfer within the arena, when it begins and is done at the earliest, and those before; its ``number`` counts them all."""

    job: StripeJob
    begin: int
    done: int
    before: Sent | None
    number: int = 1


class ProofState(Struct, frozen=True, eq=False):
    """The least times behind some jobs, one for each block that the last kernel may have been made in, and how they got there.

    The jobs are those of the Program that began at cycle ``begin``; what has passed the constants' port since is in ``traffic`` (None:
    nobody counts it). ``earlier`` are of the newest kernels, as many as may be outstanding, when each has finished, and the words of
    constants until then. ``past`` are the Program's jobs, and ``sent`` its transfers within the arena, with which the DMA is done at cycle
    ``moved``; ``gated`` are the words that these have passed. The last of all has been issued at cycle ``issued``. ``chain`` says what is
    known of the choice of blocks, the last of which is that of the kernel ``last`` (None: no kernel is right before). ``mixed`` has the
    cycle at which the DMA is done at the earliest with all copies and none of the transfers, with one of these, and so on.
    """

    kernels: Kernels
    rows: array[int]
    begin: int
    traffic: PortTraffic | None
    segment: int
    moved: int
    issued: int
    mixed: tuple[int, ...]
    chain: Chain = UNKNOWN
    last: KernelJob | None = None
    earlier: tuple[Done, ...] = ()
    past: Past | None = None
    sent: Sent | None = None
    gated: Gated = OPEN

    @classmethod
    def begun(cls, made: Made, begin: int, traffic: PortTraffic | None, segment: int, chain: Chain = UNKNOWN) -> ProofState:
        """The state before the first job of a Program."""
        return cls(*made, begin, traffic, segment, begin, begin, (begin,), chain)

    def behind_kernels(self) -> ProofState:
        """The state before a job that is no kernel: the last kernel is made in the block that is chosen if none comes right behind it."""
        costs = self.chain.costs
        made = replace(self, chain=CUT if self.chain.is_known else UNKNOWN, last=None)
        if not costs:
            return made
        at = costs.index(min(costs))
        rows = self.rows[at * len(START) : (at + 1) * len(START)]
        past = self.past and self.past._replace(cycle=rows[-1])
        earlier = (*self.earlier[:-1], self.earlier[-1]._replace(cycle=rows[-1]))
        return replace(made, kernels=(self.kernels[at],), rows=rows + rows, past=past, earlier=earlier)

    @property
    def least(self) -> FlowTimes:
        """The least of each time."""
        return FlowTimes(*self.rows[-len(START) :])

    @property
    def cycles(self) -> int:
        """Cycles of the jobs at least."""
        return max(self.rows[-1], self.moved)

    @property
    def times(self) -> Iterator[Sequence[int]]:
        """The times behind each block."""
        return (self.rows[at : at + len(START)] for at in range(0, len(self.rows) - len(START), len(START)))
