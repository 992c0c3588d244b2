"""Striped groups become a TensorIR schedule: blocks are split into stripes, computed where they are read, and buffered as planned.

The steps are those of RFC 0037 in the words of today's TVM: ``split`` and ``reorder`` make the loops over stripes,
``compute_at`` brings the producers inside, ``set_scope`` says in which memory a buffer lies, and a software pipeline doubles
the buffers of copies. Sizes and what is made at each stripe come from the plan's own trace; where TVM would choose others,
:mod:`cascader.tensorir.stripe_buffers` puts them in their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cascader.graph.cascader_graph import CascaderGraph, Part, TensorKind
from cascader.graph.intervals import Box, clip, elements, whole
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.buffer_modes import BufferMode, StripeBuffer
from cascader.plan.stripe_trace import StripedGroup, StripeTrace, trace
from cascader.tensorir.blocks import Counter, PartBlock, Place, part_block
from cascader.tensorir.compat import SRAM, load
from cascader.tensorir.copies import COPY, Copied, with_copies
from cascader.tensorir.matchers import Match
from cascader.tensorir.stages import unique
from cascader.tensorir.stripe_buffers import Placed, StripeLoops, place
from cascader.tensorir.stripe_geometry import TensorStripes, stripes_of
from cascader.tensorir.te_frontend import TeGraph
from npu_model.errors import InputError
from npu_model.values import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """A function in TensorIR, and what the plan says of it.

    ``claims`` are the bytes of the buffer of each tensor in the cascade memory, ``work`` the multiply-accumulates (or whatever
    the part counts) of each part, both by name. The function's parameters are the inputs, the constants and the outputs, in
    this order, and behind them, if it ``counts``, an array of int64 with the work of each part as it is executed. ``tables`` are the
    values of constants that are not the graph's: the boxes that parts make at each stripe. ``external`` are
    tensors that do not lie in the cascade memory; a copy of stripes of X has a buffer of its own, such as ``X_in0``.
    """

    module: Any
    claims: Mapping[str, int]
    work: Mapping[str, int]
    inputs: tuple[str, ...]
    constants: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: bool
    tables: Mapping[str, Array]
    external: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Group:
    """A group on the way to its loops."""

    group: StripedGroup
    parts: tuple[Part, ...]
    trace: StripeTrace
    stripes: dict[str, TensorStripes]
    buffers: dict[str, StripeBuffer]
    placed: list[Placed] = field(default_factory=list)

    @property
    def last(self) -> Part:
        """The part whose output is cut."""
        return self.parts[-1]

    def loop_axes(self) -> list[int]:
        """The axes that are cut, in the order of their loops."""
        config = self.group.stripes
        return sorted((axis for axis, count in enumerate(config.stripes) if count > 1), key=lambda axis: config.order[axis])


@dataclass(slots=True)
class _Draft:
    """The function on its way."""

    graph: TeGraph
    copied: Copied
    groups: list[_Group]
    counters: Any
    places: dict[str, Place] = field(default_factory=dict)
    domains: dict[str, Box] = field(default_factory=dict)
    bounds: list[int] = field(default_factory=list)


def apply(graph: TeGraph, groups: Sequence[StripedGroup], *, count: bool = False) -> Applied:
    """The schedule of groups that cover the graph, in order of execution.

    With ``count`` every block counts the work that it does. InputError if the groups do not cover the graph, or one cannot be
    expressed.
    """
    tirx = load().tirx
    _check_cover(graph, groups)
    copied = with_copies(graph.stages, graph.affine, groups)
    counters = tirx.decl_buffer((len(copied.affine.parts),), "int64", name="executed") if count else None
    draft = _Draft(graph, copied, [_laid_out(copied.affine, group) for group in copied.groups], counters)
    for group in draft.groups:
        for name, stripes in group.stripes.items():
            draft.domains[name] = stripes.domain
        for placed in _placements(group):
            group.placed.append(replace(placed, line=len(draft.bounds)))
            draft.bounds += placed.bounds
    name = unique("stripe_boxes", graph.stages.names.values())
    table = tirx.decl_buffer((len(draft.bounds),), "int32", name=name) if draft.bounds else None
    schedule = load().s_tir.Schedule(_function(draft, table))
    nests = [_cut(draft, schedule, group) for group in draft.groups]
    function = schedule.mod["main"]
    for group, variables in zip(draft.groups, nests, strict=True):
        loops = StripeLoops(variables, tuple(group.group.stripes.stripes[axis] for axis in group.loop_axes()))
        for placed in group.placed:
            function = place(function, placed, loops, table)
    tables = {name: np.array(draft.bounds, np.int32)} if draft.bounds else {}
    return Applied(
        module=load().tvm.IRModule({"main": function}),
        claims=_claims(draft),
        work=_work(draft),
        inputs=graph.inputs,
        constants=(*graph.constants, *tables),
        tables=tables,
        outputs=graph.stages.outputs,
        counts=count,
        external=copied.external,
    )


def uncascaded(graph: TeGraph) -> tuple[StripedGroup, ...]:
    """Every part by itself, in one stripe: the schedule that cascades nothing."""
    return tuple(StripedGroup(index, index, StripeConfig.even(part.shape, part.shape), {}) for index, part in enumerate(graph.affine.parts))


def _check_cover(graph: TeGraph, groups: Sequence[StripedGroup]) -> None:
    covered = [index for group in groups for index in range(group.first, group.last + 1)]
    if covered != list(range(len(graph.affine.parts))):
        raise InputError(f"The groups cover the parts {covered} of a graph of {len(graph.affine.parts)}: cover each once, in order.")


def _laid_out(affine: CascaderGraph, group: StripedGroup) -> _Group:
    if group.kept:
        raise InputError(
            f"Tensor {min(group.kept)!r} is to be kept whole in a group, which is not expressed in TensorIR: plan without keep."
        )
    parts = affine.parts[group.first : group.last + 1]
    traced = trace(affine, group)
    return _Group(group, parts, traced, stripes_of(affine, parts, group.stripes), {buffer.tensor: buffer for buffer in traced.buffers})


def _function(draft: _Draft, table: Any) -> Any:
    """All blocks one after the other over their whole domains: the function before any stripe is cut."""
    compat = load()
    tirx, graph = compat.tirx, draft.graph
    buffers = {name: buffer for buffer, name in graph.stages.names.items()}
    ends = {group.last.output for group in draft.groups}
    for tensor in draft.copied.affine.tensors:
        # The last stripe may reach beyond a group's output; its buffer does not.
        domain = whole(tensor.shape) if tensor.name in ends else draft.domains.get(tensor.name, whole(tensor.shape))
        shape = tuple(last - first for first, last in domain)
        known = draft.copied.read_as.get(tensor.name, tensor.name)
        buffer = tirx.decl_buffer(shape, str(buffers[known].dtype), name=tensor.name)
        draft.places[tensor.name] = Place(buffer, tuple(first for first, _ in domain))
    blocks = [_block(draft, group, part) for group in draft.groups for part in group.parts]
    outputs = graph.stages.outputs
    given, made = ([draft.places[name].buffer for name in names] for names in ((*graph.inputs, *graph.constants), outputs))
    parameters = [*given, *([] if table is None else [table]), *made]
    inner = [draft.places[part.output].buffer for part in draft.copied.affine.parts if part.output not in outputs]
    root = compat.block([], [], [], "root", tirx.SeqStmt(blocks) if len(blocks) > 1 else blocks[0], None, inner, [], {})
    counters = [] if draft.counters is None else [draft.counters]
    function = tirx.PrimFunc([*parameters, *counters], compat.block_realize([], tirx.const(True, "bool"), root))
    return function.with_attr({"global_symbol": "main", "s_tir": True, "tirx.noalias": True})


def _block(draft: _Draft, group: _Group, part: Part) -> Any:
    match = draft.graph.match(part)
    known = draft.copied.read_as
    places = {known.get(operand.tensor, operand.tensor): draft.places[operand.tensor] for operand in part.operands}
    places[match.output.name] = draft.places[part.output]
    stripes = group.stripes[part.output]
    channels = stripes.loops[-1] is None and stripes.domain[-1] == (0, part.shape[-1])
    counter = None if draft.counters is None else Counter(draft.counters, draft.copied.affine.parts.index(part))
    domain = draft.domains[part.output]
    return part_block(PartBlock(part.output, draft.graph.stages, match, places, domain, channels, counter))


def _cut(draft: _Draft, schedule: Any, group: _Group) -> tuple[Any, ...]:
    """Stripe loops around the last part, the other parts inside, each buffer in its memory; returns the loops' variables."""
    config = group.group.stripes
    loops = list(schedule.get_loops(schedule.get_sblock(group.last.output)))
    outer: dict[int, Any] = {}
    for axis in group.loop_axes():
        outer[axis], loops[axis] = schedule.split(loops[axis], [config.stripes[axis], config.shape[axis]])
    nest = [outer[axis] for axis in group.loop_axes()]
    if nest:
        schedule.reorder(*nest, *loops)
    for part in reversed(group.parts[:-1]):
        if nest:
            schedule.compute_at(schedule.get_sblock(part.output), nest[-1])
    for part in group.parts:
        if _in_cascade_memory(draft, part.output):
            schedule.set_scope(schedule.get_sblock(part.output), 0, SRAM)
    if nest:
        _pipeline(schedule, group, nest[-1])
    return tuple(schedule.get(loop).loop_var for loop in nest)


def _in_cascade_memory(draft: _Draft, tensor: str) -> bool:
    return draft.copied.affine.tensor(tensor).kind is not TensorKind.OUTPUT and tensor not in draft.copied.external


def _pipeline(schedule: Any, group: _Group, loop: Any) -> None:
    """Copies in of double buffers run one stripe ahead of the parts, copies out one behind, so that both stripes are held."""
    doubled = {name for name, mode in group.group.modes.items() if mode is BufferMode.DOUBLE}
    if not doubled:
        return
    ahead = int(any(part.output in doubled for part in group.parts[:-1] if _is_copy(part)))
    stages = []
    for part in group.parts:
        early = _is_copy(part) and part.output in doubled
        late = _is_copy(part) and not doubled.isdisjoint(part.inputs)
        stages.append(0 if early else ahead + 1 if late else ahead)
    schedule.annotate(loop, "software_pipeline_stage", stages)
    schedule.annotate(loop, "software_pipeline_order", list(range(len(stages))))


def _is_copy(part: Part) -> bool:
    return isinstance(part.payload, Match) and part.payload.kind == COPY


def _placements(group: _Group) -> list[Placed]:
    """The tensors whose buffers or boxes TVM would not choose as planned."""
    found, numbers = [], list(group.group.stripes.indices())
    for index, part in enumerate(group.parts[:-1], group.group.first):
        buffer, stripes, made = group.buffers[part.output], group.stripes[part.output], group.trace.made[index]
        own = [clip(box, part.whole) for box in stripes.boxes]
        same = all(box == wanted or not elements(box) + elements(wanted) for box, wanted in zip(made, own, strict=True))
        # Where stripes begin unevenly, as behind an upscaling cut between two copies of a row, TVM sees no fixed length.
        even = stripes.is_even(numbers) and buffer.shape == stripes.longest
        if buffer.mode is BufferMode.DOUBLE:
            if not (same and even and group.loop_axes()):
                raise InputError(f"Stripes of tensor {part.output!r} are uneven, and TensorIR doubles even ones: use another buffer mode.")
        elif group.loop_axes() and not (same and even and buffer.mode is BufferMode.RECOMPUTE):
            origin = [0] * len(part.shape) if buffer.axis is None else list(buffer.origin)
            if buffer.axis is not None:
                origin[buffer.axis] = 0
            found.append(Placed(part.output, tuple(low for low, _ in stripes.domain), buffer.shape, tuple(origin), tuple(made)))
    return found


def _claims(draft: _Draft) -> dict[str, int]:
    claims: dict[str, int] = {}
    for group in draft.groups:
        claims |= {buffer.tensor: buffer.size for buffer in group.trace.buffers}
        output = draft.copied.affine.tensor(group.last.output)
        if _in_cascade_memory(draft, output.name):
            claims[output.name] = output.size
    return claims


def _work(draft: _Draft) -> dict[str, int]:
    parts = draft.copied.affine.parts
    return {
        parts[index].name: int(parts[index].work * sum(map(elements, boxes)))
        for group in draft.groups
        for index, boxes in group.trace.made.items()
    }
