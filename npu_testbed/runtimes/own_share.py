"""Own share: the bytes that TFLite Micro and ExecuTorch use besides activations, as measured with Arm's ready firmware.

In TFLite Micro's arena, kernels on the CPU have scratch: bytes after the file's plan.
"""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import Binding, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import ARENA, FIRST_HOME
from npu_model.shapes import round_up
from npu_testbed.documents.units import OwnShareEntry

_Span = tuple[int, int]

_BASES, _ADDRESS, _SIZE = 4, 8, 4
"""Base addresses that the NPU's kernel passes besides those of inputs and outputs, and the bytes of one and of its size.

TFLite Micro's kernel for the NPU keeps them in two scratch buffers.
"""


def placed(sizes: Iterable[int], taken: Iterable[_Span]) -> int:
    """The end of the last buffer if each one goes into the first gap that holds it, the largest first.

    Source: ``greedy_memory_planner.cc`` of TFLite Micro.

    >>> placed([32, 64], [(0, 16), (48, 64)]), placed([32, 48], [(0, 16), (48, 64)])
    (128, 112)
    """
    spans, end = sorted(taken), 0
    for size in sorted(sizes, reverse=True):
        at = 0
        for start, after in spans:
            if start - at >= size:
                break
            at = max(at, after)
        spans = sorted([*spans, (at, at + size)])
        end = max(end, at + size)
    return end


def _held(network: CompiledNetwork, step: int) -> list[_Span]:
    """The ranges that TFLite Micro keeps during a step: arrays in use, and the whole arena until the NPU's last step."""
    last = max((index for index, one in enumerate(network.steps) if isinstance(one, Program)), default=-1)
    if step <= last:
        return [(0, round_up(network.arena_size, ALIGNMENT))]
    uses: dict[Binding, list[int]] = {one: [-1] for one in network.inputs}
    for index, one in enumerate(network.steps):
        for binding in (*one.inputs, *one.outputs):
            uses.setdefault(binding, []).append(index)
    for binding in (*network.outputs, *network.variables):
        uses.setdefault(binding, []).append(len(network.steps))
    arrays = [one for one, at in uses.items() if one.region == ARENA and min(at) <= step <= max(at)]
    return [(one.byte_range.start, round_up(one.byte_range.end, ALIGNMENT)) for one in arrays]


def _of_npu(program: Program) -> int:
    """Bytes of scratch after the arena while the NPU works."""
    bases = _BASES + len(program.inputs) + len(program.outputs)
    return round_up(bases * _ADDRESS, ALIGNMENT) + round_up(bases * _SIZE, ALIGNMENT)


def beyond_plan(network: CompiledNetwork, *, certain: bool) -> int:
    """Bytes after the file's plan that kernels on the CPU take for scratch in addition to what the NPU's steps take there.

    ``certain`` counts only scratch that a kernel surely asks for. If the runtime places inputs or outputs itself, they may be in any gap.
    """
    homed = any(one.region >= FIRST_HOME for one in (*network.inputs, *network.outputs))
    most = 0
    for index, step in enumerate(network.steps):
        if not isinstance(step, CpuOperator) or step.kernel is None or (certain and (step.kernel.perhaps or homed)):
            continue
        scratch = step.kernel.scratch
        most = max(most, sum(scratch) if homed else placed(scratch, _held(network, index)) - network.arena_size)
    npu = min((_of_npu(one) for one in network.steps if isinstance(one, Program)), default=0)
    return max(most - npu, 0)


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
    """The bytes of ExecuTorch's method besides its planned memory. Only the first delegate's call was measured."""
    ends = len(dict.fromkeys((*network.inputs, *network.outputs)))
    most, others = _METHOD + _VALUE * ends, 0 if network.method is None else max(network.method.calls - 1, 0)
    return OwnShare(
        least=most - _VALUE_SPREAD * ends,
        most=most + UNMEASURED * others,
        planner=0,
        unmeasured=(f"{others} calls beside the delegate's",) if others else (),
    )
