"""The cascader for the Ethos-U: from a Network to schedules along the memory/latency frontier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from cascader.drafts import Draft, Drafter, DraftOptions
from cascader.ethosu.block_chain import choose_together
from cascader.ethosu.cascaded import make_schedule
from cascader.ethosu.columns import column_counts, column_stripes
from cascader.ethosu.fold import folded
from cascader.ethosu.layouts import dense_layouts
from cascader.ethosu.lowering import operations
from cascader.ethosu.neighbours import Neighbours
from cascader.ethosu.network import Network, ethosu_part
from cascader.ethosu.reblock import reblocked
from cascader.ethosu.row_shapes import in_row_shapes
from cascader.ethosu.rows import row_graph
from cascader.ethosu.schedule import Provenance, Schedule
from cascader.ethosu.slices import LARGEST, sliced
from cascader.ethosu.source import Sources
from cascader.ethosu.stripe_cost import StripeCost
from cascader.plans import Plan, Planner, PlanOptions
from cascader.proposals import ladder, smallest_limit
from cascader.pull import PullScheduler
from cascader.row_graph import RowGraph
from cascader.schedule import Copy
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory import MemorySystem

_UNKNOWN = Provenance()
_PIECES = (12, 24, 40, 100)
"""Pieces of equal size into which all weights of a network are thought to be cut to find finer sizes of slices."""
_FINER = Fraction(3, 4)
"""What part of the next larger size a size may have: others hardly differ."""
_SMALLEST_PIECE = 2 * 1024
_LARGE = 30_000
"""Parts times rows of all parts above which a network is searched in two forms only, as each search takes long."""
_PIECES_OF_LARGE = (40, 100)
"""As ``_PIECES``, for a large network: the first of these that gives pieces that are finer."""
_FLAT_PIECE, _FLAT_PIECES = LARGEST // 4, 16
"""Bytes of weights of a piece, and pieces of a layer at most, in networks that are cut along the columns."""


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """The search, each choice a switch of its own.

    ``layouts`` are the channel counts up to which tensors are stored densely (0: all in bricks of 16); each is a
    search of its own. ``rungs`` are the memory limits that a frontier tries. ``choose_blocks`` off keeps the network's
    block configs instead of choosing them by cycles for every stripe, ``reblock`` off their depths, ``fold`` off the images' columns,
    ``row_shapes`` off the shapes of elementwise kernels. ``slices`` off keeps layers with many weights in one piece, ``fine_slices``
    off cuts only those that are very large. ``columns`` off keeps parts that are one row high whole, instead of cutting them along
    the width too; there equal pieces of the width (``column_counts``) are asked for in place of ``stripe_rows``, without bounds for
    inner rows. ``overlap`` off expects each job to begin when the one before is done.
    """

    layouts: tuple[int, ...] = (0, 64)
    rungs: int = 12
    choose_blocks: bool = True
    reblock: bool = True
    fold: bool = True
    row_shapes: bool = True
    slices: bool = True
    fine_slices: bool = True
    columns: bool = True
    overlap: bool = True
    plans: PlanOptions = field(default_factory=PlanOptions)
    drafts: DraftOptions = field(default_factory=DraftOptions)


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
        self.provenance = provenance
        columns = column_counts(network)
        if columns:
            # A group of more parts than there are layers is mostly pieces of layers, which gain nothing from each other.
            length = min(options.plans.group_length, len({p.layer for part in network.graph.parts if (p := ethosu_part(part))}))
            plans = replace(options.plans, stripe_rows=columns, inner_rows=(), group_length=max(1, length))
            options = replace(options, plans=plans, drafts=replace(options.drafts, stripe_rows=columns, inner_rows=()))
        self.options = options
        self.graph: RowGraph = row_graph(network)
        self.scheduler = PullScheduler(self.graph)
        self.cost = StripeCost(network, self.graph, find_accelerator(accelerator), system, choose_blocks=options.choose_blocks)
        self.ending: tuple[tuple[Plan, ...], ...] = Planner(self.scheduler, self.cost, options.plans).all_plans()
        overlap = Neighbours(network, self.graph, self.cost, find_accelerator(accelerator)) if options.overlap else None
        self._drafter = Drafter(self.scheduler, self.cost, self.ending, options.plans, options.drafts, overlap)

    @property
    def smallest_limit(self) -> int:
        """Least bytes that the plans of this class need; addresses may need more."""
        return smallest_limit(self.ending)

    def limits(self) -> tuple[int, ...]:
        """Memory limits for a frontier, from the smallest on."""
        return ladder(self.ending, self.options.rungs)

    def realise(self, draft: Draft) -> Candidate:
        """The schedule of a draft, with the blocks that are fastest together."""
        packing, issues = draft.packing, draft.timeline.issues
        kept = draft.timeline.staged
        schedule = make_schedule(
            self.network,
            self.accelerator,
            self.graph,
            packing.jobs,
            {tensor: address for store, address in zip(packing.stores, packing.addresses, strict=True) for tensor in store.tensors},
            {tensor: store.rows for store in packing.stores for tensor in store.tensors},
            tuple(Copy(self.graph.parts[issue.constants.part].name, issue.step, issue.address) for issue in issues),
            provenance=self.provenance,
        )
        options = [self.cost.options(job.part, job.start, job.end, staged=job.part in kept) for job in packing.jobs]
        chosen = choose_together(operations(schedule), options, find_accelerator(self.accelerator))
        jobs = tuple(replace(job, block=option.block) if option else job for job, option in zip(schedule.jobs, chosen, strict=True))
        return Candidate(replace(schedule, jobs=jobs), draft.cycles)

    def schedules_at(self, limit: int) -> tuple[Candidate, ...]:
        """Schedules whose arena is at most ``limit`` bytes, the one expected to be fastest first; none if none is found."""
        return tuple(self.realise(draft) for draft in self._drafter.drafts(limit))

    def smallest(self) -> Candidate:
        """The schedule with the smallest arena found."""
        return self.realise(self._drafter.smallest())


def _is_large(network: Network) -> bool:
    payloads = [payload for part in network.graph.parts if (payload := ethosu_part(part)) is not None]
    return len(payloads) * sum(payload.axis.extent(payload.operation.ofm.shape) for payload in payloads) > _LARGE


def _piece_sizes(network: Network, options: CascadeOptions) -> tuple[int, ...]:
    """Bytes of weights above which layers are cut, coarse and finer; 0 for not at all."""
    if not options.slices:
        return (0,)
    payloads = (ethosu_part(part) for part in network.graph.parts)
    total = sum(span.length for payload in payloads if payload is not None for span in payload.operation.weights)
    large = _is_large(network)
    sizes = [LARGEST]
    for pieces in (_PIECES_OF_LARGE if large else _PIECES) if options.fine_slices else ():
        size = max(_SMALLEST_PIECE, total // pieces)
        sizes += [size] if size <= sizes[-1] * _FINER else []
    return tuple(sizes[:2] if large else sizes)


def variants(network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions = _DEFAULT) -> tuple[Network, ...]:
    """The network as it is searched: once per layout, axis and size of slices, those left out that do not differ from others.

    Of a network that is one row high every stripe of columns reads the weights of its kernels anew, while a piece of a layer needs
    all columns of its input. So either its layers are cut along the columns; or those of many weights are, and the others into
    small pieces; or those without a window, which need no other columns than they make, and the others into pieces; or all are
    cut into pieces.
    """
    device = find_accelerator(accelerator)
    staged, direct = Sources.staged(system), Sources.direct(system)
    plain = in_row_shapes(network, device) if options.row_shapes else network
    plain = folded(plain, device, staged) if options.fold else plain

    def encoded(form: Network, *sources: Sources) -> Network:
        return reblocked(form, device, sources) if options.reblock else form

    base = encoded(plain, direct, staged)
    coarse, *fine = _piece_sizes(network, options)
    layouts = options.layouts[-1:] if fine and _is_large(network) else options.layouts
    found = [dense_layouts(sliced(base, device, coarse, early=True) if coarse else base, depth) for depth in layouts]
    # Small pieces are tried in one layout only: where each of both gains anything, they hardly gain more together.
    found += [dense_layouts(encoded(sliced(plain, device, size, early=True), staged), options.layouts[-1]) for size in fine]
    flat = [form for form in _each(column_stripes(base, depth) for depth in options.layouts) if form is not base] if options.columns else []
    if flat and options.slices:
        found.append(dense_layouts(sliced(base, device, LARGEST // 2), options.layouts[-1]))
    for form in flat:
        found.append(form)
        if options.slices and options.fine_slices:
            found.append(sliced(form, device, _FLAT_PIECE, _FLAT_PIECES))
            found.append(sliced(form, device, LARGEST // 2, pointwise=False))
    return _each(found)


def _each(networks: Iterable[Network]) -> tuple[Network, ...]:
    """The networks without those that are equal to earlier ones."""
    seen: list[Network] = []
    for network in networks:
        if network not in seen:
            seen.append(network)
    return tuple(seen)


def cascaders(
    network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions = _DEFAULT, provenance: Provenance = _UNKNOWN
) -> Iterator[Cascader]:
    """One Cascader per variant of the network."""
    for variant in variants(network, accelerator, system, options):
        yield Cascader(variant, accelerator, system, options, provenance)
