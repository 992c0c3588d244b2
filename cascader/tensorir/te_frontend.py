"""The front end of RFC 0037 for today's TVM: a Tensor Expression graph becomes a CascaderGraph, Part by Part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.tensorir.compat import check_form, item_size, shape_of
from cascader.tensorir.derive import derive
from cascader.tensorir.matchers import Match, Registry, Wanted, default_registry
from cascader.tensorir.stages import StageGraph, read_stages
from npu_model.errors import InputError
from npu_model.values import dataclass

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class TeGraph:
    """A Tensor Expression graph with its CascaderGraph, whose parts carry their :class:`Match` as payload.

    ``constants`` are the values of the constant placeholders by name, in the order of the function's parameters, which are
    the inputs, then the constants, then the outputs.
    """

    stages: StageGraph
    affine: CascaderGraph
    inputs: tuple[str, ...]
    constants: Mapping[str, Array]

    def match(self, part: Part) -> Match:
        """The stages of a part."""
        if not isinstance(part.payload, Match):
            raise InputError(f"Part {part.name!r} carries no stages: use the parts of the graph that the front end made.")
        return part.payload


def read_graph(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Mapping[Any, Array] | None = None,
    registry: Registry | None = None,
) -> TeGraph:
    """The graph from placeholders to outputs; ``constants`` holds the value of each placeholder that is known beforehand.

    Every tensor that lies between two Parts is a tensor of the graph; those inside a Part are none. InputError for a
    graph that cannot be read (see :func:`~cascader.tensorir.stages.read_stages`) or a constant of another shape.
    """
    values = constants or {}
    stages = read_stages([*inputs, *values], outputs)
    names = [stages.name(buffer) for buffer in stages.inputs]
    known = dict(zip(names[len(inputs) :], values.values(), strict=True))
    for (name, array), tensor in zip(known.items(), values, strict=True):
        check_form(name, array, tensor)
    matches = _matches(stages, frozenset(known), registry or default_registry())
    parts = tuple(_part(match, derived) for match, derived in matches)
    affine = CascaderGraph(parts, _tensors(stages, tuple(names[: len(inputs)]), tuple(known), [match for match, _ in matches]))
    return TeGraph(stages, affine, tuple(names[: len(inputs)]), known)


def _matches(stages: StageGraph, constants: frozenset[str], registry: Registry) -> list[tuple[Match, dict[str, Propagator]]]:
    """The Parts in the order of their last stages, found from the outputs to the inputs, each with its derived propagators."""
    producers = stages.producers()
    waiting, found = list(stages.outputs), dict[str, tuple[Match, dict[str, Propagator]]]()
    while waiting:
        name = waiting.pop()
        if name in found or name not in producers:
            continue
        match = registry.match(Wanted(stages, producers[name], constants))
        _check_match(name, match, stages)
        found[name] = match, derive(stages, match.stages)
        waiting += found[name][1]
    return [found[stage.name] for stage in stages.stages if stage.name in found]


def _check_match(name: str, match: Match, stages: StageGraph) -> None:
    if match.output.name != name:
        raise InputError(f"Part {match.kind!r} ends with stage {match.output.name!r} where {name!r} is wanted: end the match with it.")
    for stage in match.stages[:-1]:
        outside = [reader.name for reader in stages.readers(stage.name) if reader not in match.stages]
        if outside or stage.name in stages.outputs:
            raise InputError(f"Stage {stage.name!r} is inside Part {match.kind!r} and needed outside: leave it out of the match.")


def _part(match: Match, derived: Mapping[str, Propagator]) -> Part:
    operands = tuple(Operand(name, match.propagators.get(name, propagator)) for name, propagator in derived.items())
    return Part.striped(match.output.name, operands, match.output.name, match.output.shape, work=match.work, payload=match)


def _tensors(stages: StageGraph, inputs: tuple[str, ...], constants: tuple[str, ...], matches: Sequence[Match]) -> tuple[Tensor, ...]:
    kinds = dict.fromkeys(inputs, TensorKind.INPUT) | dict.fromkeys(constants, TensorKind.CONSTANT)
    for match in matches:
        is_output = match.output.name in stages.outputs
        kinds[match.output.name] = TensorKind.OUTPUT if is_output else TensorKind.INTERMEDIATE
    buffers = {name: buffer for buffer, name in stages.names.items()}
    return tuple(Tensor.dense(name, kind, shape_of(buffers[name]), item_size(buffers[name])) for name, kind in kinds.items())
