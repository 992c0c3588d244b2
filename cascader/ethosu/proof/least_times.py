"""The least cycles of a form's jobs in a row: the flow of each kernel behind the one before it, in whatever blocks are fastest for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from msgspec.structs import replace

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.network.network import ARENA, ethosu_part
from cascader.ethosu.proof.arena_gate import UNPHASED, ArenaGate
from cascader.ethosu.proof.chosen_blocks import ANY, FIRST, UNKNOWN, ChosenBlocks
from cascader.ethosu.proof.command_words import COPY_WORDS
from cascader.ethosu.proof.copy_room import ProofRoom
from cascader.ethosu.proof.home_port import NOT_ISSUED
from cascader.ethosu.proof.home_reads import Before
from cascader.ethosu.proof.job_kernels import ProofKernels
from cascader.ethosu.proof.least_flow import LONG_AGO, START, FlowTimes
from cascader.ethosu.proof.least_step import step
from cascader.ethosu.proof.state import (
    FINISH,
    MOVED,
    NO_REST,
    After,
    BlockKernel,
    Done,
    Kernels,
    Past,
    PortTraffic,
    ProofState,
    Rest,
    Sent,
    Staged,
    made_at,
)
from cascader.ethosu.proof.transfer_times import TransferTimes
from cascader.ethosu.proof.work_left import constants_left, cycles_left, transfers_left
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.shapes import ceil_div

FOREVER = 1 << 60
"""Behind any cycle."""


class LeastTimes:
    """Says for the jobs of one form how many cycles they take at least, whatever their addresses and copies.

    Each job is made in one of the blocks that the search chooses from. Copies have the given ``room`` (None: any).
    """

    def __init__(self, plans: Cascader, system: MemorySystem, room: ProofRoom | None = None) -> None:
        self._plans, self._constants = plans, plans.cost.constant_bytes
        self._uncopied = frozenset[int]() if room is None else room.never()
        self._device = find_accelerator(plans.accelerator)
        self._payloads = [ethosu_part(part) for part in plans.network.graph.parts]
        self._kernels = ProofKernels(plans, system, self._uncopied)
        self._transfers = TransferTimes(plans, system, self._kernels.places)
        # What is copied otherwise may be no kernel's, and a copy may take its place.
        self._budget = room.budget if room is not None and self._transfers.all_known else None
        self._home = self._kernels.home
        self._gate = ArenaGate.of(system, plans.cost.timing)
        self._response = system.ports[system.port_of(ARENA)].write_latency
        self._blocks = ChosenBlocks(plans, self._device)
        self._alone: dict[int, Kernels] = {}
        self._cycles_left = cycles_left(plans)
        self._constants_left = constants_left(plans)
        self._transfers_left = transfers_left(plans, self._transfers, self._gate)

    def whole(self, state: ProofState, part: int, rest: Rest) -> int:
        """Cycles of all jobs at least, those of the parts from ``part`` on made in any way behind a state.

        ``rest`` are the cycles that these parts take at least from the moment on at which each unit is free.
        """
        macs, output = self._cycles_left[part]
        if rest is NO_REST:
            # Nothing comes behind the last job of all.
            state = state.behind_kernels()
        load, mac, out, finish, moved, words = rest
        mac, out = max(mac, macs), max(out, output)
        cycles = min(max(at[0] + load, at[1] + mac, at[2] + out, at[4] + finish) for at in state.times)
        # The next kernel is issued behind all that has been.
        cycles = max(cycles, state.issued + load, state.moved + moved)
        if self._transfers_left[part] and self._plans.graph.parts[part].segment == state.segment and state.gated.turns >= 0:
            begun = (state.rows[-1], words), (state.moved, self._transfers_left[part])
            cycles = max(cycles, *(state.begin + self._gate.later(state.gated, at - state.begin, left) for at, left in begun))
        if state.traffic is None or not self._constants_left[part] or self._plans.graph.parts[part].segment != state.segment:
            return cycles
        # It is not known in which transactions what is left passes.
        words = self._moved(state.traffic) + state.traffic.spared + self._constants_left[part]
        return max(cycles, state.begin + self._home.passed_anyhow(words))

    def read(self, state: ProofState, job: StripeJob) -> int:
        """The cycle at which the constants of a job that reads them at home have passed at the earliest: it ends later."""
        traffic = state.traffic
        if traffic is None or not self._constants(job.part) or self._plans.graph.parts[job.part].segment != state.segment:
            return 0
        turns = max(traffic.turns, self._moved(traffic), self._home.turn(state.least.load - state.begin))
        words, spared = self._kernels.words_read(self._kernels.options(job, staged=False))
        return state.begin + self._home.passed(turns + words - spared)

    def rest(
        self, part: int, groups: Iterable[tuple[Sequence[StripeJob], int, Rest]], after: After, before: StripeJob | None = None
    ) -> Rest:
        """Cycles that the parts from ``part`` on take at least from the moment on at which each unit is free.

        Each of the groups that begin with the part comes with its jobs, the part behind it, and the rest from there on. The last rows of
        the job ``before`` are made last of all, if it is known.
        """
        ways, words, found = list(groups), 0, list[int]()
        for free, begun in enumerate(self._begun(part, before)):
            made = [(after(begun, jobs), end, rest) for jobs, end, rest in ways]
            found.append(min(self.whole(state, end, rest) for state, end, rest in made))
            if free == FINISH:
                segment = self._plans.graph.parts[part].segment
                words = min(state.gated.behind + rest.words if state.segment == segment else 0 for state, _, rest in made)
        return Rest._make((*found, words))

    def _begun(self, part: int, before: StripeJob | None) -> Iterator[ProofState]:
        """Before a part, one unit free at cycle 0 and the others long ago."""
        begun = self.begin(part)
        for free in range(MOVED + 1):
            times = [LONG_AGO] * len(START)
            if free < MOVED:
                times[free if free < FINISH else -1] = 0
            state = ProofState.begun(made_at(times), 0, None, begun.segment)
            earlier, moved = (Done(0, 0),) if free == FINISH else (), 0 if free == MOVED else LONG_AGO
            state = replace(state, earlier=earlier, moved=moved, issued=LONG_AGO, gated=UNPHASED)
            same = before is not None and self._plans.graph.parts[before.part].segment == begun.segment
            yield self._seeded(state, before, free) if before is not None and same else state

    def _seeded(self, state: ProofState, before: StripeJob, free: int) -> ProofState:
        """The state told of the job before it, if that is what is done at cycle 0."""
        payload = self._payloads[before.part]
        if free == MOVED and before.part in self._transfers.moved:
            return replace(state, sent=Sent(before, LONG_AGO, 0, None))
        if free == FINISH and payload is not None and not payload.transfer:
            return replace(state, past=Past(before, 0, 0, None, None))
        return state

    def _moved(self, traffic: PortTraffic) -> int:
        """Words that have passed in all."""
        return traffic.words + self._home.beats(traffic.commands)

    def begin(self, part: int = 0) -> ProofState:
        """Before the first job, or before those of a later part, where it is not known how many words its constants' port has passed."""
        traffic, chain = (None, UNKNOWN) if part else (PortTraffic(), FIRST)
        return ProofState.begun(made_at(START), 0, traffic, self._plans.graph.parts[part].segment, chain)

    def after(
        self, state: ProofState, jobs: Iterable[StripeJob], staged: Staged | None = None, live: Iterable[int] = repeat(0)
    ) -> ProofState:
        """The state behind some jobs; ``staged`` are the parts whose constants are copied (None: any).

        Bytes of tensors that are ``live`` at each job say when copies have room, if these are told of all jobs.
        """
        for job, size in zip(jobs, live, strict=False):
            state = self._after(state, job, staged, size)
        return state

    def _after(self, state: ProofState, job: StripeJob, staged: Staged | None, live: int) -> ProofState:
        segment = self._plans.graph.parts[job.part].segment
        kernels = self._kernels.either(job) if staged is None else self._kernels.options(job, staged=job.part in staged)
        if not kernels and state.chain.is_known:
            state = state.behind_kernels()
            # One object for each block, by which its links are known.
            state = replace(state, kernels=self._alone.setdefault(id(state.kernels[0]), state.kernels) if state.kernels else ())
        if segment != state.segment:
            # Each Program begins when the one before it has ended.
            end = state.cycles
            chain = state.chain if not kernels and state.chain.is_known else UNKNOWN
            state = ProofState.begun(made_at([end] * len(START)), end, PortTraffic(), segment, chain)
        if not kernels:
            return self._moved_by(state, job, live) if job.part in self._transfers.moved else state
        copied = None if staged is None else job.part in staged
        made = self._one_way(state, job, kernels, copied)
        finish = made.rows[-1]
        past = Past(job, finish, live, self._plans.cost.same_constants(job.part) if copied else None, state.past)
        newest = (*state.earlier, Done(finish, 0 if made.traffic is None else made.traffic.words))
        return replace(made, past=past, earlier=newest[-self._device.max_outstanding_kernels :])

    def _moved_by(self, state: ProofState, job: StripeJob, live: int) -> ProofState:
        """The state behind a transfer within the arena: issued behind all before it and the kernels that it waits for."""
        traffic, issued = state.traffic, max(state.issued, self._transfers.made(state.past, job))
        if traffic is not None:
            traffic = traffic._replace(commands=traffic.commands + COPY_WORDS)
            issued = max(issued, state.begin + self._home.fetched(traffic.commands))
        if self._device.max_outstanding_dma == 1:
            issued = max(issued, state.moved)
        begin, size = max(issued, state.moved), self._transfers.size(job)
        passed, gated = self._gate.passed(state.gated, begin, ceil_div(size, BEAT_BYTES), state.begin)
        moved = max(begin + self._transfers.cycles(size), passed + self._response)
        sent = Sent(job, begin, moved, state.sent, state.sent.number + 1 if state.sent else 1)
        mixed = state.mixed if traffic is None else (*state.mixed, moved)
        past = Past(job, moved, live, None, state.past)
        return replace(state, traffic=traffic, moved=moved, issued=issued, gated=gated, sent=sent, mixed=mixed, past=past, last=None)

    def _one_way(self, state: ProofState, job: StripeJob, kernels: Kernels, staged: bool | None) -> ProofState:  # noqa: FBT001  # one of three
        """The state behind a job with its part's constants copied, not copied, or either: then nobody counts the traffic."""
        part = job.part
        home, traffic = self._home, None if staged is None else state.traffic
        # Only so many kernels may be outstanding, and only what is fetched is issued.
        is_full = len(state.earlier) == self._device.max_outstanding_kernels
        done = state.earlier[0] if is_full else Done(state.begin, 0)
        there, whole = self._transfers.there(state.sent, job)
        start, moved, mixed = max(done.cycle if is_full else LONG_AGO, state.issued, there), state.moved, state.mixed
        macs, reading = LONG_AGO, None
        if traffic is not None:
            traffic, ready = self._issued(state, traffic, (kernels[0], part), done.words, staged=bool(staged))
            start = max(start, state.begin + ready)
            if traffic.copies != (state.traffic or traffic).copies:
                mixed = self._mixed(state, part)
                # Where one transfer may be outstanding, it is the last one.
                whole = max(whole, len(mixed) - 2 if self._device.max_outstanding_dma == 1 else 0)
                start, moved = max(start, mixed[whole]), mixed[-1]
            # All constants of the kernels before and all copies have passed when this one's MACs begin.
            macs = state.begin + home.passed(max(traffic.turns, self._moved(traffic)))
        load, mac, *others = state.rows[-len(START) :]
        least = FlowTimes(max(load, start), max(mac, macs), *others)
        if traffic is not None and not staged and self._constants(part):
            before = max(traffic.turns, self._moved(traffic), home.turn(least.load - state.begin))
            reading = Before(*least, state.begin + home.begun(before), state.begin, traffic.issued)
            traffic = traffic.read(before, *self._kernels.words_read(kernels))
        elif staged is None and part in self._uncopied:
            # Wherever in a period a kernel begins: one that begins at its beginning, less than a period earlier, ends no later.
            shifted = FlowTimes(*(time - max(home.period - 1, 0) for time in least))
            reading = Before(*shifted, LONG_AGO, shifted.load, NOT_ISSUED)
        last = None if staged is None else self._kernels.job(job, staged=staged)
        chain, origins = (UNKNOWN, ANY) if last is None else self._blocks.behind(state.chain, state.last, last)
        rows = step(state.rows, self._kernels.link(state.kernels, kernels), origins, start, macs)
        if reading is not None:
            rows, issued = self._kernels.reads(state.kernels, kernels, origins).behind(reading, rows)
            traffic = traffic and traffic._replace(issued=issued)
        changed = {"kernels": kernels, "rows": rows, "traffic": traffic, "issued": start, "moved": moved, "mixed": mixed}
        return replace(state, **changed, chain=chain, last=last)

    def _room_from(self, past: Past | None, copy: int) -> int:
        """The cycle from which on there may be room for a copy: no job that is still to end leaves too little.

        Copies come in the order of their first use, so that all before are there when it is, until their own last uses. What is in the
        way of a copy was last used by this job or by a later one: by a kernel, or by a transfer within the arena.
        """
        bytes_of, used = self._plans.cost.constant_bytes, {copy}
        kernel = moved = FOREVER
        while self._budget is not None and past is not None:
            if past.copy is not None:
                used.add(past.copy)
            if past.job.part in self._transfers.moved:
                moved = past.cycle
            else:
                kernel = past.cycle
            if past.live + sum(map(bytes_of, used)) > self._budget:
                return min(kernel, moved)
            past = past.before
        return 0

    def _mixed(self, state: ProofState, part: int) -> tuple[int, ...]:
        """When the DMA is done with a part's copy, too, and with none of the transfers so far, with one, and so on.

        One comes after the other, those before in their order, the copy behind whichever transfer is best.
        """
        traffic, home, source = state.traffic or PortTraffic(), self._home, self._plans.cost.same_constants(part)
        size, room = ceil_div(self._constants(part), BEAT_BYTES), self._room_from(state.past, source) - state.begin
        copied = [state.begin + home.copy(max(traffic.copies, home.turn(max(0, at - state.begin, room))) + size) for at in state.mixed]
        sent, transfers = state.sent, list[Sent]()
        while sent is not None and len(transfers) < len(copied) - 1:
            transfers.append(sent)
            sent = sent.before
        found = [copied[0]]
        for at, one in zip(copied[1:], reversed(transfers), strict=True):
            found.append(min(at, max(found[-1], one.begin) + self._transfers.cycles(self._transfers.size(one.job))))
        return tuple(found)

    def _issued(
        self, state: ProofState, traffic: PortTraffic, after: tuple[BlockKernel, int], words: int, *, staged: bool
    ) -> tuple[PortTraffic, int]:
        """The traffic of a part's kernel with its commands and its copy, and cycles until it is issued, behind ``words`` of constants."""
        home, before, (kernel, part) = self._home, state.kernels, after
        commands = traffic.commands + self._kernels.commands(before[0].operation if before else None, kernel.operation)
        source = self._plans.cost.same_constants(part)
        if not staged or not self._constants(part) or source in traffic.copied:
            return traffic._replace(commands=commands), max(home.fetched(commands), home.passed(words + home.beats(commands)))
        size, commands = ceil_div(self._constants(part), BEAT_BYTES), commands + COPY_WORDS
        begun = max(home.copy(traffic.copies), self._room_from(state.past, source) - state.begin)
        traffic = traffic._replace(commands=commands).copy(max(traffic.copies, home.turn(begun)), size, source)
        return traffic, max(home.fetched(commands), home.copy(traffic.copies), home.passed(words + size + home.beats(commands)))
