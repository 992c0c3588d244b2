"""Stripes and buffers of a part group by the formulas of TVM RFC 0037, which those of the trace are held against."""

from __future__ import annotations

from math import prod

from cascader.graph.cascader_graph import CascaderGraph, Tensor
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.buffer_modes import BufferMode
from cascader.plan.stripe_trace import StripedGroup


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
                found.setdefault(operand.tensor, {})[operand.propagator.propagate(config)] = None
    return {name: tuple(configs) for name, configs in found.items()}


def rfc_buffer_size(config: StripeConfig, tensor: Tensor, mode: BufferMode) -> int:
    """Bytes of a tensor's buffer by the RFC's formulas, with padding: a stripe, or a stripe on the outermost cut axis alone."""
    shape = list(config.shape)
    if mode is BufferMode.ROLLING:
        cut = [axis for axis, stripes in enumerate(config.stripes) if stripes > 1]
        outermost = min(cut, key=lambda axis: config.order[axis], default=0)
        shape = [config.shape[axis] if axis == outermost else size for axis, size in enumerate(tensor.shape)]
    return prod(shape) * tensor.element_size * (2 if mode is BufferMode.DOUBLE else 1)
