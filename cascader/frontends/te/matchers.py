"""Part matchers: the stages of one Ethos-U operator become one Part, with its attributes and its operands by role.

A stage must have exactly the expression that the operator's function writes for these attributes and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct

from cascader.frontends.te import moves, operators
from cascader.frontends.te.attributes import (
    BINARY,
    CONCATENATE,
    CONV2D,
    DEPTHWISE,
    FROM_BRICKS,
    IDENTITY,
    POOLING,
    RESHAPE,
    SLICE,
    TO_BRICKS,
    UNARY,
    Attributes,
    attributes,
)
from cascader.frontends.te.stages import PART
from cascader.tensorir.compat import buffer_of, load, shape_of
from cascader.tensorir.stages import Stage, read_stages
from cascader.tensorir.te_frontend import Match, WantedTensor
from npu_model.errors import InputError

MOVES = (CONCATENATE, RESHAPE, SLICE, TO_BRICKS, FROM_BRICKS)
_FILTERS, _POOLS = (CONV2D, DEPTHWISE), (POOLING, IDENTITY)
_KERNELS = (*_FILTERS, *_POOLS, BINARY, UNARY)
_MAKERS: dict[str, Callable[..., Any]] = {
    CONV2D: operators.ethosu_conv2d,
    DEPTHWISE: operators.ethosu_depthwise_conv2d,
    POOLING: operators.ethosu_pooling,
    IDENTITY: operators.ethosu_identity,
    BINARY: operators.ethosu_binary_elementwise,
    UNARY: operators.ethosu_unary_elementwise,
}


class Operator(Struct, frozen=True):
    """An operator of the graph: its name, its tensors by role (ifm, ifm2, weight, scale_bias, lut), and its attributes.

    A concatenation has its operands in order as ``pieces``, along an ``axis``; a slice has a ``begin``.
    """

    op: str
    tensors: Mapping[str, str]
    made: Attributes | None = None
    axis: int = 0
    begin: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()


def operator(wanted: WantedTensor) -> Match:
    """The Part whose last stage is the wanted one; InputError if that stage is not an operator of the Ethos-U."""
    op = str(wanted.stage.attrs.get("op", ""))
    if op in MOVES:
        return Match(op, (wanted.stage,), 0, payload=_move(wanted, op))
    if op not in _KERNELS:
        what = f"says {op!r}, which is not an operator" if op else "is not an operator"
        raise InputError(
            f"Stage {wanted.stage.name!r} {what} of the Ethos-U: write it with the functions of cascader.frontends.te, or give --device "
            "for a device of your own."
        )
    made = attributes(op, {name: value for name, value in wanted.stage.attrs.items() if name != "op"})
    stages = tuple(_stages(wanted, wanted.stage))
    tensors = _roles(wanted, op, stages)
    found = Operator(op, tensors, made)
    _require_expression(wanted, found, stages)
    loops = [prod(axis.extent for axis in stage.reduce_axes) for stage in stages if stage.is_reduction]
    return Match(op, stages, max(loops, default=1), payload=found)


def _move(wanted: WantedTensor, op: str) -> Operator:
    """A move of elements; InputError unless its stage has the expression that the operator's function writes."""
    stage, attrs = wanted.stage, wanted.stage.attrs
    names = tuple(_reads(wanted, stage))
    te, buffers = load().te, {wanted.graph.name(buffer): buffer for buffer in wanted.graph.names}
    given = {name: te.placeholder(shape_of(buffers[name]), str(buffers[name].dtype), name=f"own{at}") for at, name in enumerate(names)}
    begin, axis = tuple(int(one) for one in attrs.get("begin", ())), int(attrs.get("axis", 0))
    missing = {CONCATENATE: "axis", SLICE: "begin"}.get(op)
    if missing is not None and missing not in attrs:
        raise InputError(f"Stage {stage.name!r} does not say the {missing} of {op}: write it with that function.")
    if op == CONCATENATE:
        made = moves.concatenate([given[name] for name in names], axis, name="own")
    elif op == RESHAPE:
        made = moves.reshape(given[names[0]], stage.shape, name="own")
    elif op == TO_BRICKS:
        made = moves.to_bricks(given[names[0]], name="own")
    elif op == FROM_BRICKS:
        made = moves.from_bricks(given[names[0]], stage.shape[-1], name="own")
    else:
        made = moves.strided_slice(given[names[0]], begin, [a + b for a, b in zip(begin, stage.shape, strict=True)], name="own")
    if not _is_alike(stage, read_stages(list(given.values()), [made]).stages[0]):
        raise InputError(f"Stage {stage.name!r} does not compute what its attributes say of {op}: write it with that function.")
    return Operator(op, {"ifm": names[0]}, axis=axis, begin=begin, pieces=names)


def _reads(wanted: WantedTensor, stage: Stage) -> list[str]:
    """Names of the tensors that a stage reads, in the order of its expression."""
    return [wanted.graph.name(buffer_of(node)) for node in stage.loads()]


def _stages(wanted: WantedTensor, stage: Stage) -> list[Stage]:
    """The stages of an operator up to this one, in order."""
    found: list[Stage] = []
    producers = wanted.graph.producers()
    for name in dict.fromkeys(_reads(wanted, stage)):
        producer = producers.get(name)
        if producer is not None and PART in producer.attrs:
            found += [own for own in _stages(wanted, producer) if own not in found]
    return [*found, stage]


def _roles(wanted: WantedTensor, op: str, stages: Sequence[Stage]) -> dict[str, str]:
    """The tensors of an operator by role, as its stages read them."""
    inner = {stage.name for stage in stages[:-1]}
    by_work = {str(stage.attrs.get(PART, "last")): stage for stage in stages}
    outside = {what: [name for name in _reads(wanted, stage) if name not in inner] for what, stage in by_work.items()}
    shapes = {wanted.graph.name(buffer): shape_of(buffer) for buffer in wanted.graph.names}
    roles: dict[str, str] = {}
    for name in outside.get("last", ()):
        roles["lut" if len(shapes[name]) == 1 else "scale_bias"] = name
    first = next((what for what in ("ifm", "upscale", "pad", "sums") if outside.get(what)), "last")
    own = outside.get(first, ())
    if own:
        roles["ifm"] = own[0]
    if op in _FILTERS:
        sums = [name for name in outside.get("sums", ()) if name != roles.get("ifm") or first != "sums"]
        roles.update({"weight": sums[0]} if sums else {})
    if op == BINARY and outside.get("ifm2"):
        roles["ifm2"] = outside["ifm2"][0]
    return roles


def _require_expression(wanted: WantedTensor, found: Operator, stages: Sequence[Stage]) -> None:
    """Check the stages of an operator; InputError unless they have the expressions that the operator's function writes."""
    name = stages[-1].name
    te, buffers = load().te, {wanted.graph.name(buffer): buffer for buffer in wanted.graph.names}
    needed = ("ifm", *(("weight", "scale_bias") if found.op in _FILTERS else ()), *(("ifm2",) if found.op == BINARY else ()))
    if found.made is None or any(role not in found.tensors for role in needed):
        raise InputError(f"Stage {name!r} lacks an operand of {found.op}, which reads {', '.join(needed)}: write it with that function.")
    roles = [role for role in ("ifm", "ifm2", "weight", "scale_bias", "lut") if role in found.tensors]
    given = [te.placeholder(shape_of(buffers[found.tensors[role]]), str(buffers[found.tensors[role]].dtype), name=role) for role in roles]
    plain = {key: value for key, value in found.made.plain.items() if key != "op"}
    made = _MAKERS[found.op](**dict(zip(roles, given, strict=True)), name="own", **plain)
    expected = read_stages(given, [made]).stages
    alike = len(expected) == len(stages) and all(_is_alike(own, other) for own, other in zip(stages, expected, strict=True))
    if not alike:
        raise InputError(f"Stage {name!r} does not compute what its attributes say of {found.op}: write it with that function.")


def _is_alike(own: Stage, other: Stage) -> bool:
    """Whether two stages have the same expression, apart from the names of variables and buffers."""
    shapes = own.shape == other.shape and [a.extent for a in own.reduce_axes] == [a.extent for a in other.reduce_axes]
    equal = load().ffi.structural_equal
    return shapes and bool(equal(own.value, other.value, map_free_vars=True))
