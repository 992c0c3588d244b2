"""Moves of elements as Tensor Expressions: concatenation, and the reshape and slice of TVM's inline Parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from cascader.frontends.te.attributes import CONCATENATE, FROM_BRICKS, RESHAPE, SLICE, TO_BRICKS
from cascader.tensorir.compat import load, shape_of
from npu_model.errors import InputError
from npu_model.program import BRICK
from npu_model.shapes import ceil_div

_BRICK_AXES = 5


def concatenate(tensors: Sequence[Any], axis: int = -1, *, name: str = CONCATENATE) -> Any:
    """Concatenate tensors of one type along ``axis``: rows, columns or channels.

    A kernel copies each tensor, or the tensor is written in its part of the result.
    """
    tensors = list(tensors)
    shapes = [shape_of(tensor) for tensor in tensors]
    if not shapes or len({str(tensor.dtype) for tensor in tensors}) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise InputError(f"concatenate joins {len(shapes)} tensors of shapes {shapes}: one or more of one type and rank are needed.")
    rank, at = len(shapes[0]), axis % len(shapes[0]) if -len(shapes[0]) <= axis < len(shapes[0]) else -1
    if at < 0 or len({(*shape[:at], *shape[at + 1 :]) for shape in shapes}) != 1:
        raise InputError(f"concatenate joins {shapes} along axis {axis}: all other axes must be equal, and the axis one of {rank}.")
    te, tirx = load().te, load().tirx
    ends = [sum(shape[at] for shape in shapes[: count + 1]) for count in range(len(shapes))]

    def joined(*index: Any) -> Any:
        value = None
        for tensor, shape, end in reversed(list(zip(tensors, shapes, ends, strict=True))):
            own = tensor(*index[:at], index[at] - (end - shape[at]), *index[at + 1 :])
            value = own if value is None else tirx.if_then_else(index[at] < end, own, value)
        return value

    shape = (*shapes[0][:at], ends[-1], *shapes[0][at + 1 :])
    return te.compute(shape, joined, name=name, attrs={"op": CONCATENATE, "axis": at})


def reshape(ifm: Any, shape: Sequence[int], *, name: str = RESHAPE) -> Any:
    """Reshape: the same elements in the same order in another shape. It needs no kernel, as in TVM's inline Part."""
    old, new = shape_of(ifm), tuple(int(extent) for extent in shape)
    count = prod(old)
    if min(new, default=0) < 1 or prod(new) != count:
        raise InputError(f"reshape turns {old} into {new}: a shape of {count} elements is needed.")

    def moved(*index: Any) -> Any:
        flat: Any = 0
        for position, extent in zip(index, new, strict=True):
            flat = flat * extent + position
        found: list[Any] = []
        for extent in reversed(old):
            found.insert(0, flat % extent)
            flat = flat // extent
        return ifm[tuple(found)]

    return load().te.compute(new, moved, name=name, attrs={"op": RESHAPE})


def strided_slice(ifm: Any, begin: Sequence[int], end: Sequence[int], *, name: str = SLICE) -> Any:
    """Slice: the elements from ``begin`` to before ``end`` along every axis. It needs no kernel, as in TVM's inline Part."""
    shape, low, high = shape_of(ifm), tuple(begin), tuple(end)
    if not len(low) == len(high) == len(shape) or any(not 0 <= a < b <= n for a, b, n in zip(low, high, shape, strict=True)):
        raise InputError(f"strided_slice takes {low} to {high} of a tensor of {shape}: each axis needs a part inside; correct them.")
    made = tuple(b - a for a, b in zip(low, high, strict=True))
    return load().te.compute(
        made, lambda *index: ifm(*(i + a for i, a in zip(index, low, strict=True))), name=name, attrs={"op": SLICE, "begin": low}
    )


def to_bricks(ifm: Any, *, name: str = TO_BRICKS) -> Any:
    """An image (1, height, width, channels) in bricks: (1, height, bricks, width, 16).

    It needs no kernel. The channels that fill up a brick are 0.
    """
    n, height, width, channels = shape_of(ifm)
    tirx, zero = load().tirx, load().tirx.const(0, str(ifm.dtype))

    def moved(n: Any, y: Any, brick: Any, x: Any, lane: Any) -> Any:
        channel = brick * BRICK + lane
        return ifm[n, y, x, channel] if channels % BRICK == 0 else tirx.if_then_else(channel < channels, ifm[n, y, x, channel], zero)

    return load().te.compute((n, height, ceil_div(channels, BRICK), width, BRICK), moved, name=name, attrs={"op": TO_BRICKS})


def from_bricks(ifm: Any, channels: int, *, name: str = FROM_BRICKS) -> Any:
    """The first ``channels`` of a tensor in bricks, as an image (1, height, width, channels). It needs no kernel."""
    shape = shape_of(ifm)
    bricks = ceil_div(channels, BRICK)
    if len(shape) != _BRICK_AXES or shape[2::2] != (bricks, BRICK) or channels < 1:
        raise InputError(
            f"{name!r} reads shape {shape} as {channels} channels in layout NHCWB16: (1, height, {bricks}, width, {BRICK}) is needed; "
            "make it with ofm_layout NHCWB16."
        )
    n, height, _, width, _ = shape
    return load().te.compute(
        (n, height, width, channels), lambda n, y, x, c: ifm[n, y, c // BRICK, x, c % BRICK], name=name, attrs={"op": FROM_BRICKS}
    )
