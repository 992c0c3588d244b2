"""Own share: the bytes that TFLite Micro and ExecuTorch use besides activations, as measured with Arm's ready firmware."""

from __future__ import annotations

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_testbed.documents.units import OwnShareEntry
from npu_testbed.runtimes.kernel_scratch import beyond_plan

# Measured with mlek_inference_runner.axf of the wheel mlia-ethos-u 0.1.0 (Arm's evaluation kit 25.12, GCC 13.2.1, built for a Cortex-M55,
# TFLM of April 2026), on 21 files of 1 to 12 tensors. The firmware prints the bytes that it uses. For six of the files the smallest working
# arena was found by bisection of the constant for its size: it is 0 to 12 bytes larger than the printed number.
_BASE, _TENSOR, _OPERATOR, _END = 208, 16, 64, 64
"""Most bytes: a fixed number, then for each tensor, for each operator, and for each input or output of the network."""

_SPREAD = 64
"""Bytes by which the measured shares are lower than the most."""

_STATE = 64
"""Most bytes for a state in addition to twice its own bytes."""

_HANDLE = 4
"""Bytes of the handle of a scratch buffer."""

_PLANNER, _PLANNED_TENSOR = 256, 64
"""Bytes in which the planner works: a fixed number, and some for each tensor. Two small networks needed 360 and 364."""

UNMEASURED = 1024
"""Allowance in bytes for each CPU operator whose kernel was not measured, and for each call of an ExecuTorch method."""


# Measured with the ExecuTorch runner of the same wheel (ExecuTorch of March 2026) on ten programs of one delegate. They have 2 to 9 inputs
# and outputs of up to four axes. The method took 209 bytes for two of these, 277 or 278 for three, 346 for four, and 688 for nine. The
# temporary memory was the delegate's scratch to the byte. The planned memory was its inputs and outputs.
_METHOD, _VALUE, _VALUE_SPREAD = 72, 69, 1
"""Most bytes of ExecuTorch's method: a fixed number, then for each input and output; and the bytes by which one of these may be smaller."""


class OwnShare(OwnShareEntry, frozen=True):
    """The least and the most bytes that the runtime takes for itself, and the most that its planner needs instead of activations.

    ``kernels`` are those bytes of the most that operators on the CPU keep, or need as scratch after the activations. ``unmeasured`` are
    the operators on the CPU whose kernels may take more.
    """

    planner: int
    unmeasured: tuple[str, ...] = ()
    kernels: int = 0


def _tensors(network: CompiledNetwork) -> int:
    """An upper bound of the tensors in the file: streams, the constants, the scratch, every array, and a constant of each CPU operator."""
    arrays = {one for step in network.steps for one in (*step.inputs, *step.outputs)} | {*network.inputs, *network.outputs}
    on_cpu = sum(isinstance(step, CpuOperator) for step in network.steps)
    return len(arrays) + len(network.programs) + 2 + on_cpu


def own_share(network: CompiledNetwork) -> OwnShare:
    """The bytes that TFLite Micro takes for itself to run a network."""
    tensors, ends = _tensors(network), len(network.inputs) + len(network.outputs)
    states = [round_up(one.size, ALIGNMENT) for one in network.variables]
    most = _BASE + _TENSOR * tensors + _OPERATOR * len(network.steps) + _END * ends
    on_cpu = [step for step in network.steps if isinstance(step, CpuOperator)]
    kernels = [step.kernel for step in on_cpu if step.kernel is not None]
    unmeasured = [step.code for step in on_cpu if step.kernel is None]
    kept = sum(kernel.kept + _HANDLE * len(kernel.scratch) for kernel in kernels)
    sure, perhaps = (beyond_plan(network, certain=certain) for certain in (True, False))
    return OwnShare(
        least=most - _SPREAD - _OPERATOR * len(on_cpu) + sum(states) + kept + sure,
        most=most + 2 * sum(states) + _STATE * len(states) + UNMEASURED * len(unmeasured) + kept + perhaps,
        planner=_PLANNER + _PLANNED_TENSOR * tensors,
        unmeasured=tuple(dict.fromkeys(unmeasured)),
        kernels=kept + perhaps,
    )


def method_share(network: CompiledNetwork) -> OwnShare:
    """The bytes of ExecuTorch's method besides its planned memory. Those of calls beside the first delegate's were not measured."""
    ends = len(dict.fromkeys((*network.inputs, *network.outputs)))
    most, others = _METHOD + _VALUE * ends, 0 if network.method is None else max(network.method.calls - 1, 0)
    return OwnShare(
        least=most - _VALUE_SPREAD * ends,
        most=most + UNMEASURED * others,
        planner=0,
        unmeasured=(f"{others} calls beside the delegate's",) if others else (),
    )
