"""The cascader for the Ethos-U: from a Network to schedules along the memory/latency frontier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import kernels
from cascader.ethosu.cost.block_chain import JobKernels, KnownSteps, choose_together
from cascader.ethosu.cost.neighbours import Neighbours
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.forms import is_small
from cascader.ethosu.forms.columns import column_counts
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.judge.flat_draft import Numbering
from cascader.ethosu.judge.tables import HAS_CORE, Tables
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from cascader.ethosu.schedule.cascaded import make_schedule
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, Group, stripe_jobs
from cascader.plan.jobs import Copy, Job
from cascader.plan.plans import Planner
from cascader.plan.proposals import PlanTable, ladder
from cascader.search.candidates import Draft, Drafter
from cascader.search.local_moves import Groups
from cascader.search.trials import Trials
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.timing import TimingParameters


class Candidate(Struct, frozen=True):
    """A schedule with the cycles that the search expects of it."""

    schedule: Schedule
    cycles: int

    @property
    def memory(self) -> int:
        """Bytes of the arena."""
        return self.schedule.arena_size


def _parts_beside_each_other(graph: RowGraph) -> int:
    """The most parts of which each makes some columns of one tensor, row by row: a group holds all of them, or cuts nothing before them."""
    alike = Counter((part.outputs, part.maps) for part in graph.parts if part.most_rows)
    return max(alike.values(), default=0)


class Cascader:
    """The plans of one network in one layout, from which schedules are made for any budget."""

    def __init__(  # noqa: PLR0913  # what cycles are expected of, and what others have worked out
        self,
        network: Network,
        accelerator: str,
        system: MemorySystem,
        options: CascadeOptions = DEFAULT_OPTIONS,
        provenance: Provenance = UNKNOWN,
        tables: Tables | None = None,
        expected: TimingParameters | None = None,
    ) -> None:
        """Cycles are ``expected`` of that timing, by default of the provenance's; ``tables`` are the network's, if others ask them, too."""
        self.network = network
        self.accelerator = accelerator
        self.provenance = provenance
        columns = column_counts(network)
        if columns:
            # A group of more parts than there are layers is mostly pieces of layers, which gain nothing from each other.
            length = min(options.plans.group_length, len({kernel.layer for kernel in network.kernels.values()}))
            plans = replace(options.plans, stripe_rows=columns, inner_rows=(), group_length=max(1, length))
            options = replace(options, plans=plans, drafts=replace(options.drafts, stripe_rows=columns, inner_rows=()))
        elif is_small(network):
            rows = tuple(sorted({*options.plans.stripe_rows, *options.fine_rows}))
            options = replace(options, plans=replace(options.plans, stripe_rows=rows))
        self.graph: RowGraph = row_graph(network)
        more = _parts_beside_each_other(self.graph) - 1
        if more > 0:
            options = replace(options, plans=replace(options.plans, group_length=options.plans.group_length + more))
        self.options = options
        self.scheduler = DepthFirstScheduler(self.graph)
        device, timing = find_accelerator(accelerator), expected or provenance.timing
        self.cost = StripeCost(network, self.graph, device, system, timing, choose_blocks=options.choose_blocks)
        self.plans: PlanTable[Group] = Planner(self.scheduler, self.cost, options.plans).table()
        self._made: dict[tuple[object, ...], Candidate] = {}
        self._tables = tables or Tables(network, device)
        self._numbering = Numbering(network)
        self._steps = KnownSteps()
        overlap = Neighbours(network, self.graph, self.cost, device) if options.overlap else None
        self._drafter = Drafter(self.scheduler, self.cost, self.plans, options.plans, options.drafts, overlap)

    @property
    def copy_sets(self) -> Trials:
        """The drafts of given groups with a given set of copies."""
        return self._drafter.trials

    def limits(self) -> tuple[int, ...]:
        """Memory limits for a frontier, from the smallest on."""
        return ladder(self.plans, self.options.rungs)

    def most_bytes(self) -> int:
        """Bytes of an arena in which every tensor and every copy has a place of its own: no schedule is faster for more."""
        sizes = [tensor.size for tensor in self.graph.tensors] + [self.cost.constant_bytes(part) for part in range(len(self.graph.parts))]
        return sum(round_up(size, ALIGNMENT) for size in sizes)

    def realise(self, draft: Draft) -> Candidate:
        """The schedule of a draft, with the blocks that are fastest together, not checked yet; of each draft once."""
        key = draft.groups, draft.placement.addresses, draft.timeline, draft.shares
        if key not in self._made:
            self._made[key] = self._realised(draft)
        return self._made[key]

    def _realised(self, draft: Draft) -> Candidate:
        placement, issues, jobs = draft.placement, draft.timeline.issues, stripe_jobs(draft.placement.jobs)
        readers = {issue.constants.part: self._drafter.readers(draft, issue.constants.part) for issue in issues}
        kept = {part for served in readers.values() for part in served}
        names = [part.name for part in self.graph.parts]
        schedule = make_schedule(
            self.network,
            self.accelerator,
            self.graph,
            jobs,
            placement.stores,
            placement.addresses,
            tuple(
                Copy(names[part], issue.step, issue.address, tuple(names[other] for other in readers[part][1:]))
                for issue in issues
                for part in (issue.constants.part,)
            ),
            provenance=self.provenance,
            checked=False,
        )
        options = [self.cost.options(job.part, job.start, job.end, staged=job.part in kept) for job in jobs]
        chosen = choose_together(self._kernels(schedule), options, find_accelerator(self.accelerator), self._steps)
        blocked = (Job(job.part, option.block, job.rows) if option else job for job, option in zip(schedule.jobs, chosen, strict=True))
        return Candidate(replace(schedule, jobs=tuple(blocked)), draft.cycles)

    def _kernels(self, schedule: Schedule) -> JobKernels:
        """The kernels of a schedule's jobs, each in its part's own block."""
        pairs = self._tables.pairs(self._numbering.flat(schedule)) if HAS_CORE else None
        return JobKernels(lambda: kernels(schedule), pairs)

    def promise(self, limit: int, part: Fraction) -> int | None:
        """Cycles that are expected at ``limit`` bytes when that part of the search there is done; None if nothing fits yet."""
        return self._drafter.promise(limit, part)

    def schedules_at(self, limit: int) -> tuple[Candidate, ...]:
        """Schedules whose arena is at most ``limit`` bytes, the one expected to be fastest first; none if none is found.

        The network layer by layer in the blocks that it came with is one of them where it fits: what a search expects is never so exact
        that another compiler's order of kernels could be left out.
        """
        found = [self.realise(draft) for draft in self._drafter.drafts(limit)]
        found += [self._plain] if self._plain.memory <= limit else []
        return tuple(sorted(found, key=lambda candidate: candidate.cycles))

    def made_for(self, other: Cascader, limit: int) -> Iterator[Candidate]:
        """Candidates from the drafts for ``limit`` bytes of another cascader of the network, which expects other cycles.

        Each is made in the blocks that are best there, in those that are best here, and with the copies that are best here.
        """
        for draft in other._drafter.drafts(limit):  # another one of this class
            yield other.realise(draft)
            yield self.realise(draft)
            again = self._drafter.again(draft, limit)
            if again is not None:
                yield self.realise(again)

    def regrouped(
        self, limit: int, target: int, judge: Callable[[Iterable[Candidate]], Iterator[int]], most: int, begin: Iterable[Groups] = ()
    ) -> tuple[Candidate, int, Groups] | None:
        """The fastest schedule for ``limit`` bytes, its cycles and its groups, after at most ``most`` changes that ``judge`` judges.

        It is changed until it takes at most ``target`` cycles, from the best that is found, or from the groups to ``begin`` with if these
        are better. The judge gives the cycles of each of some candidates in their order. None if nothing fits.
        """
        found = self._drafter.climbed(limit, lambda drafts: judge(map(self.realise, drafts)), target, most, begin)
        return None if found is None else (self.realise(found[0]), found[1], found[0].groups)

    @cached_property
    def _plain(self) -> Candidate:
        """The network layer by layer, its constants at home, with the cycles that its kernels take one after the other."""
        schedule = schedule_layer_by_layer(
            self.network, self.accelerator, provenance=self.provenance, scheduler=self.scheduler, checked=False
        )
        return Candidate(schedule, sum(self.cost.times(number, 0, part.rows).direct for number, part in enumerate(self.graph.parts)))

    def smallest(self) -> Candidate:
        """The schedule with the smallest arena found."""
        return self.realise(self._drafter.smallest)
