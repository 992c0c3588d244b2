"""Operands that an elementwise kernel may overwrite with its result."""

from __future__ import annotations

from cascader.ethosu.network.network import ARENA, ethosu_part
from cascader.graph.cascader_graph import Part
from npu_model.program import FeatureMap, OperationKind


def _same_place(operand: FeatureMap, ofm: FeatureMap) -> bool:
    """Whether element (y, x, c) of both has the same offset in its tensor, so that each is read before it is overwritten."""
    return ofm.region == ARENA and operand.same_places(ofm)


def overwritable_operands(part: Part) -> tuple[str, ...]:
    """Names of the tensors that the part's output may be stored over, in operand order; empty if there is none.

    An elementwise kernel reads a block before it writes it, and no other element of the block's place; so an operand with
    the output's shape, layout, strides, element size and offset qualifies, if the other operand does not read the same
    tensor differently. (Vela reuses the storage of elementwise inputs by the same argument.)
    """
    payload = ethosu_part(part)
    if payload is None or payload.operation.kind is not OperationKind.ELEMENTWISE:
        return ()
    operands, ofm = payload.operands, payload.operation.ofm
    names = dict.fromkeys(name for name, _ in operands if name is not None)
    return tuple(name for name in names if all(_same_place(m, ofm) for other, m in operands if other == name))
