"""Whether Vela's Python core can make better kernels of a network than its C++ core. It is asked only for such networks.

Both cores legalised the 351 networks of the portfolio and of ``shared/data`` with Vela 5.2. Of the 267 networks that both compile and whose
search is short, 61 were quicker or smaller with the Python core's kernels. All but nine of them have operators outside
:data:`SAME_KERNELS`, or copies that the C++ core adds. The convolutions of these nine step over columns of few channels;
:mod:`cascader.ethosu.forms.fold` makes them as quick.

Nor is it asked if the kernels in question take fewer cycles than a second network must save.
"""

from __future__ import annotations

from collections.abc import Callable

from cascader.ethosu.network.network import EthosuPart
from npu_model.compiled.network import COPIES, CompiledNetwork
from npu_model.program import ActivationKind, KernelOperation, PoolKind, Program
from npu_model.tflite.model import TfliteModel, TfliteOperator

_ALONE = {
    "ABS", "ADD", "ARG_MAX", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "EXPAND_DIMS", "FULLY_CONNECTED", "MAXIMUM",
    "MAX_POOL_2D", "MINIMUM", "MUL", "RESHAPE", "SOFTMAX", "SQUEEZE", "SUB",
}  # fmt: skip
"""Operators that neither core makes copies for."""

_COPYING = {
    "CONCATENATION", "MIRROR_PAD", "PACK", "PAD", "QUANTIZE", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SLICE", "SPLIT", "SPLIT_V",
    "STRIDED_SLICE", "SVDF", "TRANSPOSE", "TRANSPOSE_CONV", "UNPACK",
}  # fmt: skip
"""Operators for which both cores make copies that take the same cycles."""

SAME_KERNELS = frozenset(_ALONE | _COPYING)
"""Operators for which the Python core's kernels are not quicker."""

_FUSED = {"LEAKY_RELU"}
"""Operators that become a table of the kernel before them. After a kernel of :data:`_WEIGHTED` the Python core's tables are no quicker.

On three networks, on 128 and 256 MACs, the Python core's kernels took between 0.4 % fewer cycles and 24 % more. At an input they may be
quicker.
"""

_WEIGHTED = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}

_TABLES = {"LOGISTIC", "TANH"}
"""Operators that either core makes a table of the kernel before them, if it can. The C++ core sometimes leaves them kernels of their own.

Only these kernels can be saved, as at the end of an autoencoder. In an unrolled GRU the C++ core fuses all of them. On 128 MACs the Python
core's kernels of four such networks took up to 1.1 % fewer cycles layer by layer. After the search none was chosen, on 64, 128 or 256 MACs.
"""


def _own_kernels(model: TfliteModel, stream: CompiledNetwork) -> set[str]:
    """The types of a model's operators that do not become a table of the kernel before them, in the C++ core's ``stream``."""
    steps = [step for step in stream.steps if isinstance(step, Program)]
    made = [(step.name(number), one) for step in steps for number, one in enumerate(step.operations) if isinstance(one, KernelOperation)]
    layers = {name for name, _ in made}
    with_table = {name for name, one in made if one.activation.kind is not ActivationKind.NONE}
    makers = {index: one for one in model.operators for index in one.outputs}

    def before(one: TfliteOperator) -> int:
        """The tensor that a kernel wrote for an operator, whose shape may have changed since then."""
        maker = makers.get(one.inputs[0])
        return before(maker) if maker is not None and maker.name in COPIES else one.inputs[0]

    def is_fused(one: TfliteOperator) -> bool:
        if one.name in _FUSED:
            maker = makers.get(one.inputs[0])
            return maker is not None and maker.name in _WEIGHTED
        return one.name in _TABLES and model.tensors[before(one)].name in with_table and model.tensors[one.outputs[0]].name not in layers

    return {one.name for one in model.operators if not is_fused(one)}


def may_be_better(model: TfliteModel, stream: CompiledNetwork, *, copies: bool) -> bool:
    """Whether the Python core may make better kernels of a model than the C++ core made in ``stream``.

    ``copies`` says that the addresses of copies decide the network's bytes. Hardly a row in it dies early enough for a cascade, and it
    holds the most bytes while it copies.
    """
    names = _own_kernels(model, stream)
    if names - SAME_KERNELS or (copies and names & _COPYING):
        return True
    kernels = [kernel for step in stream.steps if isinstance(step, Program) for kernel in step.kernels]
    averages = sum(kernel.pool is PoolKind.AVERAGE for kernel in kernels)
    # The C++ core copies by pools, such as a result into another shape.
    return not names & _COPYING and averages > sum(operator.name == "AVERAGE_POOL_2D" for operator in model.operators)


IsSame = Callable[[EthosuPart], bool]
"""Whether both cores make the same kernel, or the Python core's is no quicker."""


def same_kernels(model: TfliteModel) -> IsSame:
    """Whether a kernel of the C++ core belongs to an operator of :data:`SAME_KERNELS`.

    Kernels do not if another operator reads their results, because that may be a table of theirs. Neither do averages of other operators,
    which are copies that the C++ core may have added.
    """
    read = {index for one in model.operators if one.name not in SAME_KERNELS for index in one.inputs}
    names = {model.tensors[index].name: one.name for one in model.operators for index in one.outputs if index not in read}

    def is_same(kernel: EthosuPart) -> bool:
        name = names.get(kernel.layer)
        return name in SAME_KERNELS and (kernel.operation.pool is not PoolKind.AVERAGE or name == "AVERAGE_POOL_2D")

    return is_same
