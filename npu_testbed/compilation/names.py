"""Names of operators as Vela's reports spell them."""

from __future__ import annotations

from npu_model.program import ElementwiseKind, KernelOperation, OperationKind, PoolKind

_KERNELS = {OperationKind.CONV_2D: "Conv2D", OperationKind.DEPTHWISE: "DepthwiseConv2D"}
_POOLS = {PoolKind.MAX: "MaxPool", PoolKind.AVERAGE: "AvgPool", PoolKind.REDUCE_SUM: "ReduceSum"}
_ELEMENTWISE = {ElementwiseKind.MIN: "Minimum", ElementwiseKind.MAX: "Maximum", ElementwiseKind.LRELU: "LeakyRelu"}
_ELEMENTWISE |= {ElementwiseKind.CLZ: "CLZ", ElementwiseKind.SHR: "Asr", ElementwiseKind.SHL: "SHL"}
_BUILTIN = {"AVERAGE_POOL_2D": "AvgPool", "MAX_POOL_2D": "MaxPool"}


def npu_operator(op: KernelOperation) -> str:
    """The name of a kernel operation of the NPU."""
    if op.elementwise is not None:
        return _ELEMENTWISE.get(op.elementwise, op.elementwise.name.capitalize())
    return _KERNELS[op.kind] if op.pool is None else _POOLS[op.pool]


def builtin_operator(code: str) -> str:
    """The name of an operator of a .tflite file.

    >>> builtin_operator("DEPTHWISE_CONV_2D"), builtin_operator("AVERAGE_POOL_2D"), builtin_operator("FULLY_CONNECTED")
    ('DepthwiseConv2D', 'AvgPool', 'FullyConnected')
    """
    return _BUILTIN.get(code, "".join(word.capitalize() for word in code.split("_")).replace("2d", "2D"))
