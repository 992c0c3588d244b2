"""The front end of RFC 0037 for today's TVM: a Tensor Expression graph becomes a CascaderGraph, Part by Part.

Part matchers decide which stages are one Part. They are tried in order. A matcher looks at the stage that makes a wanted tensor, and takes
all earlier stages that belong to the same operator. The built-in ones know no device. One accumulation is one Part, with the reads and pads
before it and the requantisation, clamps and writes after it. A chain of element-wise stages is one Part, too. Data movement (reshape,
slice, concatenation, transposition) is a Part without work. :class:`StageSequence` matches stages by the name in their ``op`` attribute, as
RFC 0037 does. A caller's own matchers are tried before all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.tensorir.compat import buffer_of, check_form, item_size, load, shape_of
from cascader.tensorir.derive import derive
from cascader.tensorir.stages import Stage, StageGraph, read_stages
from npu_model.errors import InputError

Array = npt.NDArray[Any]


class Match(Struct, frozen=True):
    """The stages of one Part, in order; the last one makes its output.

    ``work`` is the cost of an output element (multiply-accumulates of an accumulation). ``propagators`` holds hand-written ones by operand;
    the other operands get a derived Propagator. ``payload`` is for the device.
    """

    kind: str
    stages: tuple[Stage, ...]
    work: int
    propagators: Mapping[str, Propagator] = field(default_factory=dict)
    payload: object = None

    @property
    def output(self) -> Stage:
        """The stage that makes the Part's output."""
        return self.stages[-1]


class WantedTensor(Struct, frozen=True):
    """The stage that makes a wanted tensor, its graph, and the names of the constants."""

    graph: StageGraph
    stage: Stage
    constants: frozenset[str]

    def operands(self, stage: Stage) -> tuple[str, ...]:
        """Names of the tensors that a stage reads, without constants, each once, in order."""
        names = dict.fromkeys(self.graph.name(buffer_of(node)) for node in stage.loads())
        return tuple(name for name in names if name not in self.constants)

    def private_producer(self, name: str, reader: Stage) -> Stage | None:
        """The stage that makes a tensor which only ``reader`` reads; None if it is a placeholder, an output or shared."""
        shared = name in self.graph.outputs or self.graph.readers(name) != (reader,)
        return None if shared else self.graph.producers().get(name)


Matcher = Callable[[WantedTensor], Match | None]
"""A rule: the Part that makes the wanted tensor, or None if the rule does not apply."""


class StageSequence(Struct, frozen=True):
    """Matches stages whose attribute ``op`` has the names ``ops``, from first to last; a name with ``?`` may be missing.

    At least one stage must match. ``work`` is the work of an output element; None counts the loops of the accumulations.
    """

    kind: str
    ops: tuple[str, ...]
    work: int | None = None
    payload: object = None

    def __call__(self, wanted: WantedTensor) -> Match | None:
        """The Part that ends with the wanted stage."""
        taken: list[Stage] = []
        stage: Stage | None = wanted.stage
        for op in reversed(self.ops):
            if stage is not None and str(stage.attrs.get("op", "")) == op.removesuffix("?"):
                taken.insert(0, stage)
                producers = (wanted.private_producer(name, stage) for name in wanted.operands(stage))
                stage = next(filter(None, producers), None)
            elif not op.endswith("?"):
                return None
        work = _loops(taken) if self.work is None else self.work
        return Match(self.kind, tuple(taken), work, payload=self.payload) if taken else None


def _loops(stages: list[Stage]) -> int:
    return max(prod(axis.extent for axis in stage.reduce_axes) for stage in stages)


def _chain(wanted: WantedTensor, joins: Callable[[Stage], bool]) -> list[Stage]:
    """The wanted stage, after the stages that pass values on element by element to it.

    The chain ends at an accumulation, or before a stage that does not join.
    """
    chain = [wanted.stage]
    while not chain[0].is_reduction:
        operands = wanted.operands(chain[0])
        producer = wanted.private_producer(operands[0], chain[0]) if len(operands) == 1 else None
        if producer is None or not joins(producer) or not _reads_own_elements(wanted, chain[0], operands[0]):
            break
        chain.insert(0, producer)
    return chain


def accumulation(wanted: WantedTensor) -> Match | None:
    """Matches reads and pads, one accumulation, and the operations on each of its elements afterwards."""
    chain = _chain(wanted, lambda _: True)
    if not chain[0].is_reduction:
        return None
    return Match("accumulation", (*_movement_before(wanted, chain[0]), *chain), _loops(chain[:1]))


def movement(wanted: WantedTensor) -> Match | None:
    """Matches stages that only move elements: reshape, slice, transposition, padding, nearest-neighbour upscaling, concatenation."""
    if not _moves(wanted.stage):
        return None
    return Match("movement", (*_movement_before(wanted, wanted.stage), wanted.stage), 0)


def element_wise(wanted: WantedTensor) -> Match:
    """Matches a stage without an accumulation that the other rules left, with the chain of such stages before it."""
    chain = _chain(wanted, lambda producer: not producer.is_reduction and not _moves(producer))
    return Match("element-wise", tuple(chain), _loops(chain))


def _movement_before(wanted: WantedTensor, stage: Stage) -> tuple[Stage, ...]:
    """The stages that only bring one tensor to ``stage``, in order: reads, pads, upscaling."""
    for name in wanted.operands(stage):
        producer = wanted.private_producer(name, stage)
        if producer is not None and _moves(producer) and len(producer.loads()) == 1:
            return (*_movement_before(wanted, producer), producer)
    return ()


def _moves(stage: Stage) -> bool:
    """Whether an element is a constant or a copy of one element that conditions on the position choose."""
    return not stage.is_reduction and _is_copy(stage.value)


def _is_copy(value: object) -> bool:
    tirx = load().tirx
    if isinstance(value, (load().load, tirx.IntImm, tirx.FloatImm)):
        return True
    if isinstance(value, tirx.Select):
        return _is_copy(value.true_value) and _is_copy(value.false_value)
    if isinstance(value, load().call) and str(value.op.name).endswith("if_then_else"):
        return all(_is_copy(branch) for branch in list(value.args)[1:])
    return False


def _reads_own_elements(wanted: WantedTensor, stage: Stage, name: str) -> bool:
    """Whether every element depends on the element at the same position of tensor ``name``."""
    reads = [node for node in stage.loads() if wanted.graph.name(buffer_of(node)) == name]
    return all(
        len(node.indices) == len(stage.axes) and all(a.same_as(b) for a, b in zip(node.indices, stage.axes, strict=True)) for node in reads
    )


class TeGraph(Struct, frozen=True, eq=False):
    """A Tensor Expression graph with its CascaderGraph, whose parts carry their :class:`Match` as payload.

    ``constants`` holds the values of the constant placeholders by name, in the order of the function's parameters: the inputs, then the
    constants, then the outputs.
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
    matchers: Sequence[Matcher] = (),
) -> TeGraph:
    """The graph from placeholders to outputs; ``constants`` holds the value of each placeholder with a known value.

    ``matchers`` are tried before the built-in ones. The graph has the tensors between Parts, without those inside a Part. InputError for a
    graph that cannot be read (see :func:`~cascader.tensorir.stages.read_stages`) or a constant of another shape.
    """
    values = constants or {}
    stages = read_stages([*inputs, *values], outputs)
    names = [stages.name(buffer) for buffer in stages.inputs]
    known = dict(zip(names[len(inputs) :], values.values(), strict=True))
    for (name, array), tensor in zip(known.items(), values, strict=True):
        check_form(name, array, tensor)
    parts, given = _parts(stages, frozenset(known), matchers), tuple(names[: len(inputs)])
    kinds = dict.fromkeys(given, TensorKind.INPUT) | dict.fromkeys(known, TensorKind.CONSTANT)
    kinds |= {part.output: TensorKind.OUTPUT if part.output in stages.outputs else TensorKind.INTERMEDIATE for part in parts}
    buffers = {name: buffer for buffer, name in stages.names.items()}
    tensors = tuple(Tensor.dense(name, kind, shape_of(buffers[name]), item_size(buffers[name])) for name, kind in kinds.items())
    return TeGraph(stages, CascaderGraph(parts, tensors), given, known)


def _parts(stages: StageGraph, constants: frozenset[str], matchers: Sequence[Matcher]) -> tuple[Part, ...]:
    """The Parts in the order of their last stages, found from the outputs to the inputs."""
    producers = stages.producers()
    waiting, found = list(stages.outputs), dict[str, Part]()
    while waiting:
        name = waiting.pop()
        if name in found or name not in producers:
            continue
        wanted = WantedTensor(stages, producers[name], constants)
        tried = (matcher(wanted) for matcher in (*matchers, accumulation, movement))
        match = next(filter(None, tried), None) or element_wise(wanted)
        _check_match(name, match, stages)
        derived = derive(stages, match.stages)
        operands = tuple(Operand(read, match.propagators.get(read, propagator)) for read, propagator in derived.items())
        found[name] = replace(Part.striped(name, operands, name, match.output.shape, work=match.work), payload=match)
        waiting += derived
    return tuple(found[stage.name] for stage in stages.stages if stage.name in found)


def _check_match(name: str, match: Match, stages: StageGraph) -> None:
    if match.output.name != name:
        raise InputError(f"Part {match.kind!r} ends with stage {match.output.name!r} where {name!r} is wanted: end the match with it.")
    for stage in match.stages[:-1]:
        outside = [reader.name for reader in stages.readers(stage.name) if reader not in match.stages]
        if outside or stage.name in stages.outputs:
            raise InputError(f"Stage {stage.name!r} is inside Part {match.kind!r} and needed outside: leave it out of the match.")
