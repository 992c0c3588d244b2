"""Copies made explicit: a tensor at home in another memory gets a part that brings its stripes in, or takes them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.plan.stripe_trace import StripedGroup
from cascader.tensorir.compat import load
from cascader.tensorir.matchers import Match
from cascader.tensorir.stages import Stage, StageGraph
from npu_model.values import dataclass

COPY = "copy"
"""Kind of the parts that copy stripes."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A graph with copies as parts, and groups in which nothing is external any more.

    ``read_as`` has the name by which a part's expressions know a tensor, where it is not the tensor's own; ``external`` are the
    tensors that do not lie in the cascade memory.
    """

    affine: CascaderGraph
    groups: tuple[StripedGroup, ...]
    read_as: Mapping[str, str]
    external: frozenset[str]


def with_copies(stages: StageGraph, affine: CascaderGraph, groups: Sequence[StripedGroup]) -> Copied:
    """The same with every copy as a part of no work: ``X_in0`` holds stripes of X in the group that begins with part 0."""
    parts: list[Part] = []
    tensors, changed, read_as = list(affine.tensors), list[StripedGroup](), dict[str, str]()
    for group in groups:
        own = list(affine.parts[group.first : group.last + 1])
        read = dict.fromkeys(operand.tensor for part in own for operand in part.operands)
        names = {name: f"{name}_in{group.first}" for name in read if name in group.external}
        output = own[-1].output
        made = [_copy(stages, affine.tensor(name), name, staged) for name, staged in names.items()]
        made += [_reading(part, names) for part in own]
        if output in group.external:
            names[output] = f"{output}_staged"
            made[-1] = replace(made[-1], outputs=(names[output],))
            made.append(_copy(stages, affine.tensor(output), names[output], output))
        tensors += [
            Tensor.dense(staged, TensorKind.INTERMEDIATE, affine.tensor(name).shape, affine.tensor(name).element_size)
            for name, staged in names.items()
        ]
        read_as |= {staged: name for name, staged in names.items()}
        modes = {names.get(name, name): mode for name, mode in group.modes.items()}
        changed.append(replace(group, first=len(parts), last=len(parts) + len(made) - 1, modes=modes, external=frozenset()))
        parts += made
    external = frozenset(name for group in groups for name in group.external)
    return Copied(CascaderGraph(tuple(parts), tuple(tensors)), tuple(changed), read_as, external)


def _reading(part: Part, names: Mapping[str, str]) -> Part:
    """The part with staged tensors in the place of those at home elsewhere."""
    return replace(part, inputs=tuple(names.get(name, name) for name in part.inputs))


def _copy(stages: StageGraph, tensor: Tensor, source: str, target: str) -> Part:
    """The part that makes ``target`` of ``source``, of which one is ``tensor`` and the other holds its stripes."""
    compat = load()
    home = next(buffer for buffer, name in stages.names.items() if name == tensor.name)
    axes = tuple(compat.var(f"c{axis}", "int32") for axis in range(len(tensor.shape)))
    written = compat.tirx.decl_buffer(tensor.shape, str(home.dtype), name=f"{target}_copied")
    stage = Stage(f"{target}_copied", axes, tensor.shape, (), None, home[axes], written)
    operand = Operand(source, Propagator.identity(len(tensor.shape)))
    return Part.striped(f"{target}_copied", (operand,), target, tensor.shape, work=0, payload=Match(COPY, (stage,), 0))
