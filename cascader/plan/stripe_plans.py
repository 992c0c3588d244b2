"""StripePlans: part groups of a CascaderGraph with their stripes and buffer modes, and what each costs (TVM RFC 0037).

The stripes run along any axes, in any order, and every tensor inside a group has a buffer mode. The cascader proper works on rows alone
(``cascader.plan.plans``), at a finer grain and with a device's costs; this is the RFC's own class of plans, complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from fractions import Fraction
from itertools import product
from math import ceil, lcm, prod

from msgspec import Struct

from cascader.graph.cascader_graph import CascaderGraph, TensorKind
from cascader.graph.intervals import elements
from cascader.graph.stripe_config import Rational, StripeConfig
from cascader.plan.pareto import pareto
from cascader.plan.plan import BufferMode, Plan
from cascader.plan.stripe_trace import StripedGroup, StripeTrace, interior, keepable, trace
from npu_model.errors import InputError
from npu_model.shapes import ceil_div, round_up


class StripeOptions(Struct, frozen=True):
    """Choice of the plans that are tried, each field a switch of its own.

    ``group_length``: most parts of a group. ``factors``: the number of stripe lengths 1, 1/2, ... of an axis, in addition to the least that
    its alignment permits. ``stripes``: most of them in a plan. ``several_axes``: cut them together, else one at a time. ``orders``: any cut
    axis may be the outermost loop, else the first one is. ``recompute``, ``rolling``: the modes of tensors inside a group; in groups with
    at most ``mixed`` of them each tensor has its own, else all the same. ``external``: tensors at home in another memory, ``double``:
    whether these may be double-buffered. ``keep``: groups may keep tensors whole that others need too. ``cull``: leave only plans that no
    other of the same group beats.
    """

    group_length: int = 8
    factors: int = 4
    stripes: int = 64
    several_axes: bool = True
    orders: bool = True
    recompute: bool = True
    rolling: bool = True
    mixed: int = 3
    external: frozenset[str] = frozenset()
    double: bool = True
    keep: bool = False
    cull: bool = True

    def __post_init__(self) -> None:
        if not (self.recompute or self.rolling):
            raise InputError("Neither recompute nor rolling is allowed, so that no tensor can be inside a group: allow one.")
        if min(self.group_length, self.factors, self.stripes) < 1:
            raise InputError(
                f"group_length is {self.group_length}, factors {self.factors} and stripes {self.stripes}: each must be 1 or more."
            )

    @property
    def inside_modes(self) -> tuple[BufferMode, ...]:
        """Modes of a tensor inside a group."""
        modes = ((BufferMode.ROLLING, self.rolling), (BufferMode.RECOMPUTE, self.recompute))
        return tuple(mode for mode, allowed in modes if allowed)


class StripeRates(Struct, frozen=True):
    """Rates at which a device works and copies; the cascade memory itself is never the bound."""

    work_per_cycle: Rational = 1
    copy_bytes_per_cycle: Rational = 1


ONE_EACH = StripeRates()
"""One unit of work and one byte a cycle."""


StripePlan = Plan[StripedGroup]
"""A plan of stripes along any axes, in the RFC's order."""


def plan(graph: CascaderGraph, group: StripedGroup, rates: StripeRates = ONE_EACH) -> StripePlan:
    """The group with its costs; InputError if its parts cannot be a group."""
    traced = trace(graph, group)
    memory = sum(buffer.size for buffer in traced.buffers) + _whole_bytes(graph, group)
    work = sum(traced.work, Fraction(0))
    cycles = _cycles(graph, group, traced, rates)
    return Plan(group, (), memory, cycles, cycles, traced.buffers, work)


def _whole_bytes(graph: CascaderGraph, group: StripedGroup) -> int:
    """Bytes of the whole tensors that are live while the group runs."""
    inside = set(interior(graph, group.first, group.last, group.kept))
    total = 0
    for tensor in graph.tensors:
        if tensor.kind is TensorKind.CONSTANT or tensor.name in group.external or tensor.name in inside:
            continue
        users = (*graph.writers(tensor.name), *graph.readers(tensor.name))
        present = tensor.kind.is_there_at_first
        kept = tensor.kind.stays_to_the_end
        begins, ends = min(users, default=0), max(users, default=0)
        if (present or begins <= group.last) and (kept or ends >= group.first):
            total += tensor.size
    return total


def _cycles(graph: CascaderGraph, group: StripedGroup, traced: StripeTrace, rates: StripeRates) -> int:
    """One stripe after the other with its copies. Copies of double buffers run during the previous stripe (in) or the next stripe (out)."""
    steps = len(traced.work)
    beside, serial = [Fraction(0)] * (steps + 2), [Fraction(0)] * steps
    output = graph.parts[group.last].output
    for name in sorted(group.external & set(traced.filled)):
        size = graph.tensor(name).element_size
        shift = 2 if name == output else 0
        for step, box in enumerate(traced.filled[name]):
            cycles = elements(box) * size / Fraction(rates.copy_bytes_per_cycle)
            if group.modes[name] is BufferMode.DOUBLE:
                beside[step + shift] += cycles
            else:
                serial[step] += cycles
    # beside[s] runs with the work of stripe s - 1: the copy in for stripe s and the copy out of stripe s - 2.
    busy = [
        Fraction(0),
        *(work / Fraction(rates.work_per_cycle) + copies for work, copies in zip(traced.work, serial, strict=True)),
        Fraction(0),
    ]
    return ceil(sum((max(a, b) for a, b in zip(busy, beside, strict=True)), Fraction(0)))


def _sizes(extent: int, align: int, factors: int) -> tuple[int, ...]:
    """Stripe lengths of an axis: the whole, halves, quarters and so on, and the least, in multiples of ``align``.

    >>> _sizes(24, 1, 4), _sizes(7, 2, 3), _sizes(5, 5, 3)
    ((24, 12, 6, 1), (7, 4, 2), (5,))
    """
    wanted = [ceil_div(extent, 2**step) for step in range(max(1, factors - 1))] + ([1] if factors > 1 else [])
    return tuple(dict.fromkeys(min(extent, round_up(length, align)) for length in wanted))


def _orders(counts: tuple[int, ...], *, every: bool) -> Iterator[tuple[int, ...]]:
    """Loop orders of the cut axes: their own order, and with ``every`` each rotation of it."""
    cut = [axis for axis, count in enumerate(counts) if count > 1]
    for turn in range(len(cut) if every and cut else 1):
        places = {axis: 1 + (position + turn) % len(cut) for position, axis in enumerate(cut)}
        yield tuple(places.get(axis, 0) for axis in range(len(counts)))


def stripe_configs(graph: CascaderGraph, first: int, last: int, options: StripeOptions) -> tuple[StripeConfig, ...]:
    """The stripes that are tried for the output of parts ``first`` to ``last``, the uncut one first.

    A part that reads the tensor that it writes has no other.
    """
    output = graph.tensor(graph.parts[last].output)
    makers = [part for part in graph.parts[first : last + 1] if part.output == output.name]
    align = [lcm(*(part.align[axis] * part.step[axis] for part in makers)) for axis in range(len(output.shape))]
    factors = 1 if any(output.name in part.inputs for part in makers) else options.factors
    sizes = [_sizes(extent, own, factors) for extent, own in zip(output.shape, align, strict=True)]
    found: dict[StripeConfig, None] = {}
    for shape in product(*sizes):
        counts = tuple(ceil_div(extent, length) for extent, length in zip(output.shape, shape, strict=True))
        if prod(counts) <= options.stripes and (options.several_axes or sum(count > 1 for count in counts) <= 1):
            for order in _orders(counts, every=options.orders):
                found[StripeConfig.even(output.shape, shape, order)] = None
    return tuple(found)


def _modes(
    graph: CascaderGraph, first: int, last: int, inside: tuple[str, ...], config: StripeConfig, options: StripeOptions
) -> Iterator[Mapping[str, BufferMode]]:
    """The buffer modes that are tried: of the tensors inside, and of the external ones that the group reads or writes."""
    parts = graph.parts[first : last + 1]
    output = parts[-1].output
    read = dict.fromkeys(operand.tensor for part in parts for operand in part.operands)
    double = (BufferMode.DOUBLE,) if options.double and config.count > 1 else ()
    choices = {name: (BufferMode.RECOMPUTE, BufferMode.ROLLING, *double) for name in read if name in options.external.difference(inside)}
    if output in options.external:
        choices[output] = (BufferMode.RECOMPUTE, *double)
    own = options.inside_modes if config.count > 1 else options.inside_modes[:1]
    if len(inside) <= options.mixed:
        within: Iterator[tuple[BufferMode, ...]] = product(own, repeat=len(inside))
    else:
        within = ((mode,) * len(inside) for mode in own)
    for modes in within:
        for others in product(*choices.values()):
            yield {**dict(zip(inside, modes, strict=True)), **dict(zip(choices, others, strict=True))}


def group_plans(
    graph: CascaderGraph,
    first: int,
    last: int,
    options: StripeOptions,
    rates: StripeRates = ONE_EACH,
) -> tuple[StripePlan, ...]:
    """The plans of one part group; none if its parts cannot be a group."""
    kept = frozenset(keepable(graph, first, last)) - options.external if options.keep else frozenset()
    try:
        inside = interior(graph, first, last, kept)
    except InputError:
        return ()
    external = options.external.difference(inside)
    made = []
    for config in stripe_configs(graph, first, last, options):
        for modes in _modes(graph, first, last, inside, config, options):
            group = StripedGroup(first, last, config, modes, external, kept)
            # If some stripes need too little of a kept tensor, it makes no plan; a plan without kept tensors is always right here.
            with suppress(InputError) if kept else nullcontext():
                made.append(plan(graph, group, rates))
    return pareto(made) if options.cull else tuple(made)


def all_plans(
    graph: CascaderGraph,
    options: StripeOptions,
    rates: StripeRates = ONE_EACH,
) -> tuple[tuple[StripePlan, ...], ...]:
    """For every part, the plans of the groups that end with it, the longest groups first."""
    return tuple(
        tuple(
            made
            for first in range(max(0, last + 1 - options.group_length), last + 1)
            for made in group_plans(graph, first, last, options, rates)
        )
        for last in range(len(graph.parts))
    )
