"""Operators on the CPU that are executed here: copies, and those that read or assign a resource variable."""

from __future__ import annotations

from npu_model.compiled.network import COPIES, CpuOperator


def is_copy(operator: CpuOperator) -> bool:
    """Whether the operator only copies its input, so that it is executed here."""
    return operator.code in COPIES and len(operator.inputs) == 1 and len(operator.outputs) == 1


def runs_here(operator: CpuOperator) -> bool:
    """Whether the operator runs without an external kernel: a copy, or an operator that reads or assigns a resource variable."""
    return is_copy(operator) or bool(operator.resource)
