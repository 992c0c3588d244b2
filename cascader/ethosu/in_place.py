"""Which operand an elementwise kernel may overwrite with its result."""

from __future__ import annotations

from cascader.ethosu.network import ARENA, ethosu_part
from cascader.graph import Part
from npu_model.program import FeatureMap, OperationKind


def _same_place(operand: FeatureMap, ofm: FeatureMap) -> bool:
    """Whether element (y, x, c) of both has the same offset in its tensor, so that each is read before it is overwritten."""
    return (
        operand.region == ofm.region == ARENA
        and operand.shape == ofm.shape
        and operand.layout is ofm.layout
        and operand.tiles == ofm.tiles
        and operand.strides == ofm.strides
        and operand.dtype.bytes == ofm.dtype.bytes
    )


def overwritable_operand(part: Part) -> str | None:
    """Name of the tensor that the part's output may be stored over, None if there is none.

    An elementwise kernel reads a block before it writes it, and no other element of the block's place; so an operand with
    the output's shape, layout, strides, element size and offset qualifies, if the other operand does not read the same
    tensor differently. The first operand goes before the second, as in Vela.
    """
    payload = ethosu_part(part)
    if payload is None or payload.operation.kind is not OperationKind.ELEMENTWISE:
        return None
    operation = payload.operation
    operands = [(payload.ifm, operation.ifm)]
    if payload.ifm2 is not None and operation.ifm2 is not None:
        operands.append((payload.ifm2, operation.ifm2))
    for name, feature_map in operands:
        if all(_same_place(m, operation.ofm) for other, m in operands if other == name) and _same_place(feature_map, operation.ofm):
            return name
    return None
