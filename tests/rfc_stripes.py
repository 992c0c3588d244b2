"""Stripes and buffers of a part group by the formulas of TVM RFC 0037, which those of the trace are held against."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, prod

from cascader.graph.cascader_graph import CascaderGraph, Tensor
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.stripe_trace import StripedGroup


def is_whole(propagator: Propagator) -> bool:
    """Whether the coefficients and the offset are whole numbers, so that nothing is rounded."""
    return all(Fraction(value).denominator == 1 for row in (*propagator.matrix, propagator.offset) for value in row)


def propagated(propagator: Propagator, config: StripeConfig) -> StripeConfig:
    """The stripes of the input behind stripes of the output, of which each input axis follows one cut axis at most.

    Shape and extent are ceil(M . [v; 1]), strides M . [v; 0]; the extent counts padding. Where stripes begin between elements, the
    shape is the largest of all. Each box covers the demand of the output box, and is equal to it if nothing is rounded.
    """
    shape, strides, order, stripes, offset = [], [], [], [], []
    for row, shift in zip(propagator.matrix, propagator.offset, strict=False):
        followed = [axis for axis, coefficient in enumerate(row[:-1]) if coefficient]
        cut = [axis for axis in followed if config.stripes[axis] > 1] or followed[:1]
        assert len(cut) <= 1
        start = sum((c * v for c, v in zip(row, config.offset, strict=False)), Fraction(shift))
        stride = sum((row[axis] * config.strides[axis] for axis in cut), Fraction(0))
        length = sum((c * v for c, v in zip(row, config.shape, strict=False)), Fraction(row[-1]))
        count = config.stripes[cut[0]] if cut else 1
        shape.append(_longest(start, stride, length, count))
        strides.append(stride)
        order.append(config.order[cut[0]] if cut else 0)
        stripes.append(count)
        offset.append(start)
    extent = propagator.lengths(config.extent)
    return StripeConfig(tuple(shape), extent, tuple(strides), tuple(order), tuple(stripes), tuple(offset))


def _longest(start: Fraction, stride: Fraction, length: Fraction, count: int) -> int:
    """Most whole elements that any of ``count`` stripes touches; positions repeat after the denominator's steps."""
    steps = min(count, stride.denominator)
    return max(ceil(at + length) - floor(at) for at in (start + index * stride for index in range(steps)))


def tensor_stripes(graph: CascaderGraph, group: StripedGroup) -> dict[str, tuple[StripeConfig, ...]]:
    """The RFC's stripes of every tensor that the group reads: one StripeConfig for each way from its output.

    As propagated, that is not clipped; parts that begin or step elsewhere in their tensor (concatenations) end the way.
    """
    found: dict[str, dict[StripeConfig, None]] = {graph.parts[group.last].output: {group.stripes: None}}
    for part in reversed(graph.parts[group.first : group.last + 1]):
        if part.shape != graph.tensor(part.output).shape:
            continue
        for config in found.get(part.output, {}):
            for operand in part.operands:
                found.setdefault(operand.tensor, {})[propagated(operand.propagator, config)] = None
    return {name: tuple(configs) for name, configs in found.items()}


def rfc_buffer_size(config: StripeConfig, tensor: Tensor, mode: BufferMode) -> int:
    """Bytes of a tensor's buffer by the RFC's formulas, with padding: a stripe, or a stripe on the outermost cut axis alone."""
    shape = list(config.shape)
    if mode is BufferMode.ROLLING:
        cut = [axis for axis, stripes in enumerate(config.stripes) if stripes > 1]
        outermost = min(cut, key=lambda axis: config.order[axis], default=0)
        shape = [config.shape[axis] if axis == outermost else size for axis, size in enumerate(tensor.shape)]
    return prod(shape) * tensor.element_size * (2 if mode is BufferMode.DOUBLE else 1)
