"""Scratch of kernels on the CPU in TFLite Micro's arena: the bytes after the file's plan."""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import Binding, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import ARENA, FIRST_HOME
from npu_model.shapes import round_up

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
