"""Loops: runs of alike kernels, each a fixed step behind the one before, as few kernels that take the steps themselves.

Vela transposes a tensor by one kernel a pixel or a row: the shuffle of channels of an image of 28 x 28 is 784 kernels of 2 x 24
elements. A kernel of 784 x 24 elements for each of the 2 does the same: the start of a kernel takes more cycles than so few elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cascader.ethosu.network.overwriting import byte_numbers
from cascader.frontends.vela.backward_steps import moves_elements
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import ActivationKind, FeatureMap, KernelOperation, Layout, Strides, Upscale
from npu_model.shapes import Shape3D
from npu_model.values import dataclass

MANY_SPARED = 500
"""Kernels spared by merged loops above which a network is searched with these alone: each part of it takes its time in every form."""

_MOST_ROWS = 1 << 16
"""Rows that a feature map may have (16-bit HEIGHT registers)."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Bytes from the base of one kernel's feature maps to that of the next one's: of the IFM and of the OFM."""

    ifm: int
    ofm: int


def _moves(operation: KernelOperation) -> bool:
    """Whether the operation moves elements that a base and three strides address, without weights or a table.

    A table's slot of SHRAM may be filled anew between two kernels.
    """
    alone = operation.scalar is None and not operation.weights and not operation.scales and operation.upscale is Upscale.NONE
    by_strides = operation.ifm.layout is operation.ofm.layout is Layout.NHWC
    return alone and by_strides and operation.activation.kind is not ActivationKind.LUT and moves_elements(operation)


def _without_place(operation: KernelOperation) -> KernelOperation:
    """The operation as all kernels of a loop have it in common."""
    return replace(operation, ifm=operation.ifm.at(0), ofm=operation.ofm.at(0), blockdep=0)


def _step(first: KernelOperation, second: KernelOperation) -> _Step:
    return _Step(second.ifm.base - first.ifm.base, second.ofm.base - first.ofm.base)


def _runs(operations: Sequence[KernelOperation]) -> Iterator[Sequence[KernelOperation]]:
    """The operations cut into the longest runs of a constant step, from the first on."""
    start = 0
    while start < len(operations):
        end = start + 1
        if _moves(operations[start]):
            body = _without_place(operations[start])
            step = None
            while end < len(operations) and _moves(operations[end]) and _without_place(operations[end]) == body:
                found = _step(operations[end - 1], operations[end])
                if step not in (None, found):
                    break
                step, end = found, end + 1
        yield operations[start:end]
        start = end


def _is_apart(run: Sequence[KernelOperation]) -> bool:
    """Whether no kernel of the run writes a byte that another one writes or any reads, so that their order does not matter."""
    written = [byte_numbers(operation.ofm) for operation in run]
    every = np.unique(np.concatenate(written))
    if every.size != sum(one.size for one in written):
        return False
    read = np.unique(np.concatenate([byte_numbers(operation.ifm) for operation in run]))
    return run[0].ifm.region != run[0].ofm.region or not np.intersect1d(every, read, assume_unique=True).size


def _looped(feature_map: FeatureMap, rows: int, step: int, inner: int, *, along_x: bool) -> FeatureMap:
    """The map of the ``inner``-th row (``along_x``: column) of every kernel of a run, a row each."""
    shape, strides = feature_map.shape, feature_map.strides
    width, stride = (shape.height, strides.y) if along_x else (shape.width, strides.x)
    base = feature_map.base + inner * (strides.x if along_x else strides.y)
    return replace(feature_map.at(base, Shape3D(rows, width, shape.depth)), strides=Strides(step, stride, strides.c))


def _merged(run: Sequence[KernelOperation]) -> Sequence[KernelOperation]:
    """The run as kernels of a row per kernel of it: one for each of its rows, or of its columns, whichever are fewer."""
    first, shape = run[0], run[0].ofm.shape
    along_x = shape.width < shape.height
    count = min(shape.width, shape.height)
    step = _step(run[0], run[1]) if len(run) > 1 else _Step(0, 0)
    outermost = max(first.ofm.strides.y * (shape.height > 1), first.ofm.strides.x * (shape.width > 1))
    if not (len(run) > count and len(run) <= _MOST_ROWS and step.ifm > 0 and step.ofm >= outermost and _is_apart(run)):
        return run
    return [
        replace(
            first,
            ifm=_looped(first.ifm, len(run), step.ifm, inner, along_x=along_x),
            ofm=_looped(first.ofm, len(run), step.ofm, inner, along_x=along_x),
            blockdep=0,
        )
        for inner in range(count)
    ]


def merged(operations: Sequence[KernelOperation]) -> Iterator[tuple[range, Sequence[KernelOperation]]]:
    """Each run of alike moves with the fewer kernels that take its place where their order does not matter, else with its own.

    A run is a range of positions in ``operations``; an operation that is in none is a run of its own.
    """
    at = 0
    for run in _runs(operations):
        yield range(at, at + len(run)), _merged(run)
        at += len(run)


def spared_kernels(network: CompiledNetwork) -> int:
    """Kernels that there are fewer with all loops of the network's programs merged."""
    programs = ([op for op in program.operations if isinstance(op, KernelOperation)] for program in network.programs)
    return sum(len(run) - len(operations) for kernels in programs for run, operations in merged(kernels))
