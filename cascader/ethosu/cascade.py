"""The cascader for the Ethos-U: from a Network to schedules along the memory/latency frontier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from cascader.ethosu.cascaded import make_schedule
from cascader.ethosu.layouts import dense_layouts
from cascader.ethosu.network import CONSTANTS, Network
from cascader.ethosu.reblock import reblocked
from cascader.ethosu.rows import row_graph
from cascader.ethosu.schedule import Provenance, Schedule
from cascader.ethosu.slices import sliced
from cascader.ethosu.stripe_cost import StripeCost, cycles_per_word
from cascader.overlap import Extent, allocate, live_bytes
from cascader.plans import Plan, Planner, PlanOptions
from cascader.prefetch import Issue, Staged, prefetch, timeline
from cascader.proposals import Proposal, ladder, propose, smallest_limit
from cascader.pull import PullScheduler, StripeJob
from cascader.row_graph import RowGraph
from cascader.schedule import Copy
from cascader.storage import Storage, storages
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError
from npu_model.memory import MemorySystem

_UNKNOWN = Provenance()
_TRUST = (Fraction(0), Fraction(1, 2), Fraction(1))
_LIMITS = tuple(Fraction(percent, 100) for percent in (100, 97, 94, 91, 88, 84, 80))
"""Limits for one budget, in parts of it."""
_SLACKS = (Fraction(0), Fraction(1, 12), Fraction(1, 4), Fraction(1))
"""What prefetching leaves free, in parts of the limit."""


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """The search, each choice a switch of its own.

    ``layouts`` are the channel counts up to which tensors are stored densely (0: all in bricks of 16); each is a
    search of its own. ``rungs`` are the memory limits that a frontier tries, ``moves`` those of the address search.
    ``prefetch`` off copies staged constants only just before they are used; ``choose_blocks`` off keeps the network's
    block configs instead of choosing them by cycles for every stripe, ``reblock`` off their
    depths. ``slices`` off keeps layers with many weights in one piece.
    """

    layouts: tuple[int, ...] = (0, 64)
    rungs: int = 16
    moves: int = 1000
    prefetch: bool = True
    choose_blocks: bool = True
    reblock: bool = True
    slices: bool = True
    plans: PlanOptions = field(default_factory=PlanOptions)


_DEFAULT = CascadeOptions()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule with the cycles that the search expects of it."""

    schedule: Schedule
    cycles: int

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.schedule.arena_size


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A schedule before it has addresses: jobs, buffers, when copies are issued, and the cycles expected."""

    jobs: tuple[StripeJob, ...]
    stores: tuple[Storage, ...]
    issues: tuple[Issue, ...]
    cycles: int


class Cascader:
    """The plans of one network in one layout, from which schedules are made for any budget."""

    def __init__(
        self,
        network: Network,
        accelerator: str,
        system: MemorySystem,
        options: CascadeOptions = _DEFAULT,
        provenance: Provenance = _UNKNOWN,
    ) -> None:
        self.network = network
        self.accelerator = accelerator
        self.options = options
        self.provenance = provenance
        self.graph: RowGraph = row_graph(network)
        self.scheduler = PullScheduler(self.graph)
        self.cost = StripeCost(network, self.graph, find_accelerator(accelerator), system, choose_blocks=options.choose_blocks)
        self.ending: tuple[tuple[Plan, ...], ...] = Planner(self.scheduler, self.cost, options.plans).all_plans()

    @property
    def smallest_limit(self) -> int:
        """Least bytes that the plans of this class need; addresses may need more."""
        return smallest_limit(self.ending)

    def limits(self) -> tuple[int, ...]:
        """Memory limits for a frontier, from the smallest on."""
        return ladder(self.ending, self.options.rungs)

    def _jobs(self, proposal: Proposal) -> tuple[tuple[StripeJob, ...], tuple[Staged, ...]]:
        """The stripe jobs of all plans in order, and the constants that they stage."""
        jobs: list[StripeJob] = []
        uses: dict[int, list[int]] = {}
        for plan in proposal.plans:
            for job in self.scheduler.jobs(plan.group):
                if job.part in plan.staged:
                    uses.setdefault(job.part, []).append(len(jobs))
                jobs.append(job)
        begins: dict[int, int] = {}
        for step, job in enumerate(jobs):
            begins.setdefault(self.graph.parts[job.part].segment, step)
        staged = (
            Staged(p, at[0], at[-1], self.cost.constant_bytes(p), self.cost.transfer_cycles(p), begins[self.graph.parts[p].segment])
            for p, at in uses.items()
        )
        return tuple(jobs), tuple(staged)

    def _durations(self, jobs: tuple[StripeJob, ...], kept: set[int]) -> list[int]:
        """Cycles of each job, its constants staged or read from home."""
        return [
            self.cost.compute_cycles(job.part, job.start, job.end)
            if job.part in kept
            else self.cost.direct_cycles(job.part, job.start, job.end)
            for job in jobs
        ]

    def draft_of(self, proposal: Proposal, budget: int) -> Draft:
        """The jobs and buffers of a proposal, its copies prefetched into what ``budget`` leaves free."""
        jobs, staged = self._jobs(proposal)
        stores = storages(self.graph, jobs, in_place=self.options.plans.in_place)
        kept = {item.part for item in staged}
        durations = self._durations(jobs, kept)
        home = [0 if job.part in kept else self.cost.home_cycles(job.part, job.start, job.end) for job in jobs]
        live = live_bytes([store.extent for store in stores], len(jobs))
        room = budget - live if self.options.prefetch else np.zeros_like(live)
        for item in staged:
            room[item.first : item.last + 1] -= item.size
        issues = prefetch(staged, durations, room, home)
        return Draft(jobs, stores, issues, timeline([job.part for job in jobs], durations, issues, home))

    def draft(self, limit: int, slack: Fraction = Fraction(0)) -> Draft | None:
        """The fastest of the proposals that trust prefetching more or less; None if no plan fits ``limit``.

        ``slack`` is the part of the limit that prefetching leaves alone, so that addresses are found more easily.
        """
        proposals = dict.fromkeys(propose(self.ending, limit, cold) for cold in _TRUST)
        room = limit - int(limit * slack)
        return min((self.draft_of(p, room) for p in proposals if p is not None), key=lambda d: d.cycles, default=None)

    def realise(self, draft: Draft) -> Candidate:
        """The schedule with addresses; its arena may come out larger than the budget."""
        jobs, stores, issues = draft.jobs, draft.stores, draft.issues
        copies = [_extent(issue) for issue in issues]
        kept = {issue.staged.part for issue in issues}
        _, addresses = allocate([store.extent for store in stores] + copies, moves=self.options.moves, core=len(stores))
        schedule = make_schedule(
            self.network,
            self.accelerator,
            self.graph,
            jobs,
            {tensor: address for store, address in zip(stores, addresses, strict=False) for tensor in store.tensors},
            {tensor: store.rows for store in stores for tensor in store.tensors},
            tuple(
                Copy(self.graph.parts[issue.staged.part].name, issue.step, address)
                for issue, address in zip(issues, addresses[len(stores) :], strict=True)
            ),
            blocks=[self.cost.block(job.part, job.start, job.end, staged=job.part in kept) for job in jobs],
            provenance=self.provenance,
        )
        return Candidate(schedule, draft.cycles)

    def _drafts(self, limit: int) -> tuple[Draft, ...]:
        """The drafts for a limit, with more or less of it left to copies, without repeats: addresses are dear."""
        drafts = (self.draft(limit, slack) for slack in _SLACKS)
        return tuple({(draft.jobs, draft.issues): draft for draft in drafts if draft is not None}.values())

    def drafts(self, limit: int) -> list[Draft]:
        """The drafts under a limit, with more or less of it left to copies; without repeats, the one expected to be fastest first."""
        found: dict[object, Draft] = {}
        for slack in _SLACKS:
            draft = self.draft(limit, slack)
            if draft is not None:
                found.setdefault((draft.jobs, draft.issues), draft)
        return sorted(found.values(), key=lambda draft: draft.cycles)

    def schedules_at(self, limit: int) -> tuple[Candidate, ...]:
        """The schedules that a memory limit gives, with more or less of it left to copies; arenas may come out larger than it."""
        return tuple(self.realise(draft) for draft in self._drafts(limit))

    def fit(self, budget: int) -> Candidate | None:
        """The schedule expected to be fastest of those found whose arena is at most ``budget`` bytes; None if there is none.

        Addresses may need more bytes than are live, so limits below the budget are tried, one after the other.
        """
        for share in _LIMITS:
            limit = int(budget * share)
            found = [self.realise(draft) for draft in sorted(self._drafts(limit), key=lambda d: d.cycles)]
            fitting = [candidate for candidate in found if candidate.memory <= budget]
            if fitting:
                return min(fitting, key=lambda candidate: (candidate.cycles, candidate.memory))
        return None


def _extent(issue: Issue) -> Extent:
    """The bytes of a staged copy, from its issue to its last use."""
    steps = issue.staged.last + 1 - issue.start
    size = np.full(steps, issue.staged.size, dtype=np.int64)
    return Extent(f"constants of part {issue.staged.part}", issue.start, np.zeros_like(size), size)


def variants(network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions = _DEFAULT) -> tuple[Network, ...]:
    """The network as it is searched: once per layout that differs from those before it."""
    device = find_accelerator(accelerator)
    home = system.ports[system.port_of(CONSTANTS)]
    base = reblocked(network, device, cycles_per_word(home)) if options.reblock else network
    base = sliced(base, device) if options.slices else base
    seen: list[Network] = []
    for depth in options.layouts:
        variant = dense_layouts(base, depth)
        if variant not in seen:
            seen.append(variant)
    return tuple(seen)


def cascaders(
    network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions = _DEFAULT, provenance: Provenance = _UNKNOWN
) -> Iterator[Cascader]:
    """One Cascader per variant of the network."""
    for variant in variants(network, accelerator, system, options):
        yield Cascader(variant, accelerator, system, options, provenance)


def _silent(done: int, total: int) -> None:
    """No progress is shown: ``done`` of ``total`` limits are finished."""


def candidates(
    network: Network,
    accelerator: str,
    system: MemorySystem,
    options: CascadeOptions = _DEFAULT,
    provenance: Provenance = _UNKNOWN,
    progress: Callable[[int, int], None] = _silent,
) -> tuple[Candidate, ...]:
    """Schedules along the frontier, for every layout and memory limit; the caller simulates and culls them."""
    found: list[Candidate] = []
    variants = tuple(cascaders(network, accelerator, system, options, provenance))
    limits = [(variant, limit) for variant in variants for limit in variant.limits()]
    for done, (variant, limit) in enumerate(limits):
        progress(done, len(limits))
        found += variant.schedules_at(limit)
    progress(len(limits), len(limits))
    return tuple(found)


def schedule_within(
    network: Network,
    accelerator: str,
    system: MemorySystem,
    budget: int,
    options: CascadeOptions = _DEFAULT,
    provenance: Provenance = _UNKNOWN,
) -> tuple[Candidate, ...]:
    """Schedules that fit into ``budget`` bytes, one per layout; InputError that names the smallest reachable if none does."""
    variants = tuple(cascaders(network, accelerator, system, options, provenance))
    fitting = tuple(c for variant in variants if (c := variant.fit(budget)) is not None)
    if not fitting:
        smallest = min(smallest_schedule(variant).memory for variant in variants)
        raise InputError(
            f"No schedule was found that fits into {budget} bytes: the smallest arena that the cascader reaches is {smallest}; "
            "allow that much."
        )
    return fitting


def smallest_schedule(variant: Cascader) -> Candidate:
    """The schedule with the smallest arena found: the least limit and a few above it, as addresses may pack better there."""
    sizes = [limit for limit in variant.limits() if limit <= variant.smallest_limit * 5 // 4]
    drafts = [draft for limit in sizes if (draft := variant.draft(limit)) is not None]
    return min((variant.realise(draft) for draft in drafts), key=lambda c: (c.memory, c.cycles))
