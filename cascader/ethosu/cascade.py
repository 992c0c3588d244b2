"""The cascader for the Ethos-U: from a Network to schedules along the memory/latency frontier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache, cached_property, partial

from msgspec.structs import replace

from cascader.draft.climb import Costs
from cascader.draft.draft import JOB, Draft, lines, table
from cascader.draft.drafter import Drafter
from cascader.draft.group_moves import Groups
from cascader.draft.trials import Trials
from cascader.ethosu.cost.block_chain import JobKernels, KnownSteps, choose_together
from cascader.ethosu.cost.neighbours import Neighbours
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.forms import is_small
from cascader.ethosu.forms.columns import column_counts
from cascader.ethosu.job.draft_kernels import DraftKernels
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.judge.tables import HAS_CORE, Tables
from cascader.ethosu.network.homes import home_addresses
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from cascader.ethosu.schedule.drafts import own_blocks, schedule_of
from cascader.ethosu.schedule.layer_by_layer import draft_layer_by_layer
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import DepthFirstScheduler, Group
from cascader.plan.plans import Planner
from cascader.plan.proposals import PlanTable, ladder
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.timing import TimingParameters


def rooms(least: int, limit: int) -> Iterator[int]:
    """Bytes of arenas from ``least`` up to less than ``limit``, each about an eleventh larger than the previous one.

    The arena of a network that holds nothing in it has the bytes of one alignment.

    >>> list(rooms(1000, 1300))
    [1008, 1104, 1216]
    >>> list(rooms(0, 40))
    [16, 32]
    """
    room = round_up(max(least, 1), ALIGNMENT)
    while room < limit:
        yield room
        room += round_up(room // 11, ALIGNMENT)


def _parts_beside_each_other(graph: RowGraph) -> int:
    """The largest number of parts that write different columns of the same tensor, row by row.

    A group holds all of them, or cuts nothing before them.
    """
    alike = Counter((part.outputs, part.maps) for part in graph.parts if part.most_rows)
    return max(alike.values(), default=0)


class Cascader:
    """The plans of one network in one layout, from which drafts are made for any budget."""

    def __init__(  # noqa: PLR0913  # what cycles are expected of, and what others have worked out
        self,
        network: Network,
        accelerator: str,
        system: MemorySystem,
        options: CascadeOptions = DEFAULT_OPTIONS,
        provenance: Provenance = UNKNOWN,
        tables: Tables | None = None,
        expected: TimingParameters | None = None,
        form: int = 0,
    ) -> None:
        """Cycles are ``expected`` under that timing, by default the provenance's.

        ``tables`` are the network's tables, if they are shared. ``form`` is the network's number among all forms of a search.
        """
        self.network = network
        self.accelerator = accelerator
        self.provenance = provenance
        columns = column_counts(network)
        if columns:
            # A group with more parts than layers is mostly slices of layers, which gain nothing from each other.
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
        self.kernels = DraftKernels(network)
        self._form = form
        self._tables = tables or Tables(network, device)
        self._own_blocks = own_blocks(network)
        self._steps = KnownSteps()
        self.in_blocks = cache(self._in_blocks)
        overlap = Neighbours(network, self.graph, self.cost, device) if options.overlap else None
        homes = home_addresses(network)
        self.drafter = Drafter(self.scheduler, self.cost, lambda: self.plans, options.plans, options.drafts, overlap, homes)

    @cached_property
    def plans(self) -> PlanTable[Group]:
        """The plans of all groups, made on demand."""
        return Planner(self.scheduler, self.cost, self.options.plans).table()

    @property
    def copy_sets(self) -> Trials:
        """The drafts of given groups with a given set of copies."""
        return self.drafter.trials

    def limits(self) -> tuple[int, ...]:
        """Memory limits for a frontier, from the smallest on."""
        return ladder(self.plans, self.options.rungs)

    def most_bytes(self) -> int:
        """Bytes of an arena in which every tensor and every copy has its own bytes: a larger arena makes no schedule faster."""
        sizes = [tensor.size for tensor in self.graph.tensors] + [self.cost.constant_bytes(part) for part in range(len(self.graph.parts))]
        return sum(round_up(size, ALIGNMENT) for size in sizes)

    def _in_blocks(self, draft: Draft) -> Draft:
        """A draft of the drafter, with the blocks that are fastest together."""
        served, jobs = draft.served, lines(draft.jobs, JOB).tolist()
        options = [
            self.cost.options(part, *((start, end) if end >= 0 else (0, self.graph.parts[part].rows)), staged=part in served)
            for part, start, end, *_ in jobs
        ]
        pairs = self._tables.pairs(draft) if HAS_CORE else None
        kernels = JobKernels(partial(self.kernels.kernel, draft), pairs)
        chosen = choose_together(kernels, options, find_accelerator(self.accelerator), self._steps)
        blocks = [(one.block.height, one.block.width, one.block.depth) if one else () for one in chosen]
        blocked = [(*job[:3], *(block or self._own_blocks[job[0]])) for job, block in zip(jobs, blocks, strict=True)]
        return replace(draft, jobs=table(blocked, JOB), form=self._form)

    def schedule(self, draft: Draft) -> Schedule:
        """The Schedule of a draft, not checked."""
        return schedule_of(draft, self.network, self.accelerator, self.provenance)

    def promise(self, limit: int, part: Fraction) -> int | None:
        """Expected cycles at ``limit`` bytes after that part of the search; None if nothing fits yet."""
        return self.drafter.promise(limit, part)

    def drafts_at(self, limit: int, *, blocks: bool = True) -> tuple[Draft, ...]:
        """Drafts whose arena has at most ``limit`` bytes, the one with the fewest expected cycles first; none if none is found.

        Without ``blocks`` their blocks are not chosen yet, which changes no estimate. If the network fits layer by layer in its given
        blocks, that is one of them, because estimates are not exact enough to rule out another compiler's order.
        """
        found = [self.in_blocks(draft) if blocks else replace(draft, form=self._form) for draft in self.drafter.drafts(limit)]
        found += [self._plain] if self._plain.memory <= limit else []
        return tuple(sorted(found, key=lambda draft: draft.cycles))

    def blocked(self, draft: Draft) -> Draft:
        """A draft of :meth:`drafts_at` whose blocks were not chosen yet, in the blocks that are fastest together."""
        return draft if draft == self._plain else self.in_blocks(draft)

    def made_for(self, other: Cascader, limit: int) -> Iterator[Draft]:
        """The drafts for ``limit`` bytes from another cascader of the network, which expects other cycles.

        Each is made with that cascader's best blocks, with this one's best blocks, and with this one's best copies.
        """
        for draft in other.drafter.drafts(limit):
            yield other.in_blocks(draft)
            yield self.in_blocks(draft)
            again = self.drafter.again(draft, limit)
            if again is not None:
                yield self.in_blocks(again)

    def in_less_room(self, other: Cascader, draft: Draft, limit: int) -> Iterator[Draft]:
        """The groups of a draft with another cascader's best copies for arenas below ``limit`` bytes.

        Each is made with that cascader's best blocks and with this one's. Copies delay kernels in ways that estimates model poorly, so
        fewer copies may be faster. The arenas are the same for every limit, so a larger limit misses nothing that a smaller one finds.
        """
        for room in rooms(self.drafter.placement.greedily(draft.part_groups)[0], limit):
            again = other.drafter.again(draft, room)
            if again is not None:
                if other is not self:
                    yield other.in_blocks(again)
                yield self.in_blocks(again)

    def regrouped(
        self, limit: int, target: int, judge: Costs[Draft, int], most: int, begin: Iterable[Groups] = ()
    ) -> tuple[Draft, int] | None:
        """The fastest draft for ``limit`` bytes and its cycles, after at most ``most`` changes that ``judge`` judges.

        The changes begin at the best draft found, or at the groups ``begin`` if these are better, and end at ``target`` cycles. None if
        nothing fits.
        """
        found = self.drafter.climbed(limit, lambda drafts: judge(map(self.in_blocks, drafts)), target, most, begin)
        return None if found is None else (self.in_blocks(found[0]), found[1])

    @cached_property
    def _plain(self) -> Draft:
        """The network layer by layer with its constants at home, and the cycles of its kernels one after the other."""
        cycles = sum(self.cost.times(number, 0, part.rows).direct for number, part in enumerate(self.graph.parts))
        return replace(draft_layer_by_layer(self.network, self.scheduler, cycles), form=self._form)

    def smallest(self) -> Draft:
        """The draft with the smallest arena found."""
        return self.in_blocks(self.drafter.smallest)

    def smallest_within(self, cycles: int) -> Draft | None:
        """The draft of :meth:`smallest`; None if it is expected to take more than ``cycles`` before its addresses are packed closer."""
        draft = self.drafter.smallest_within(cycles)
        return None if draft is None else self.in_blocks(draft)
