"""Copies of unsigned bytes that Vela's C++ core makes as if they were signed: mended, so that they keep all 8 bits.

Vela 5.2.0 lowers a TRANSPOSE to average poolings of single elements. Of uint8 tensors their maps are int8, and what comes out is cut off
below 0. The range of the activation is one field: with all of it, and zero points of 0, such a kernel moves bytes as they are. No
address and no cycle changes.
"""

from __future__ import annotations

from dataclasses import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.program import ActivationKind, Kernel, KernelOperation, Operation, PoolKind, Program
from npu_model.tflite.model import TfliteModel

_SIGNED = "INT8"


def is_unsigned(model: TfliteModel) -> bool:
    """Whether no tensor of a .tflite ``model`` has signed bytes: kernels that move some move unsigned ones."""
    return all(tensor.dtype != _SIGNED for tensor in model.tensors)


def _moves_signed_bytes(operation: KernelOperation) -> bool:
    ifm, ofm = operation.ifm, operation.ofm
    return (
        operation.pool is PoolKind.AVERAGE
        and operation.kernel == Kernel()
        and operation.activation.kind is ActivationKind.NONE
        and ifm.dtype == ofm.dtype
        and ifm.dtype.signed
        and ifm.dtype.bits == 8  # bytes
        and (ifm.shape, ifm.zero_point) == (ofm.shape, ofm.zero_point)
    )


def _whole(operation: Operation) -> Operation:
    if not isinstance(operation, KernelOperation) or not _moves_signed_bytes(operation):
        return operation
    activation = replace(operation.activation, minimum=operation.ofm.dtype.minimum, maximum=operation.ofm.dtype.maximum)
    return replace(operation, activation=activation, ifm=replace(operation.ifm, zero_point=0), ofm=replace(operation.ofm, zero_point=0))


def with_whole_bytes(network: CompiledNetwork) -> CompiledNetwork:
    """The ``network``, of an unsigned model, whose copies of single bytes keep all their bits."""
    steps = (replace(step, operations=tuple(map(_whole, step.operations))) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=tuple(steps))
