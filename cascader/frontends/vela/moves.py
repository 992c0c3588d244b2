"""Kernels that move elements, in a form that the cascader can cut: backward steps become forward steps, and loops are merged.

Vela lowers the reflected part of a MIRROR_PAD to a copy whose OFM has a negative stride. The cascader's stripes count rows and columns
upwards; a kernel of one row has no direction. A reflection is a few rows or columns wide, so a few kernels replace it.

A loop is a run of similar kernels, each a fixed step after the previous one. A few kernels that take the steps themselves do the same. Vela
transposes a tensor by one kernel for each pixel or row: the channel shuffle of a 28 x 28 image takes 784 kernels of 2 x 24 elements. Two
kernels of 784 x 24 elements do the same. The start of a kernel takes more cycles than so few elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from cascader.ethosu.network.overlaps import byte_numbers
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import ActivationKind, FeatureMap, KernelOperation, Layout, Strides, Upscale
from npu_model.shapes import Shape3D


def _piece(feature_map: FeatureMap, y: int, x: int, shape: Shape3D) -> FeatureMap:
    """The map's elements from (y, x) on, with extent 1 along each axis that steps backwards."""
    strides = Strides(abs(feature_map.strides.y), abs(feature_map.strides.x), feature_map.strides.c)
    return replace(feature_map.at(feature_map.address(y, x, 0), shape), strides=strides)


def moves_elements(operation: KernelOperation) -> bool:
    """Whether each OFM element depends on the same element of the IFM only."""
    kernel, padding = operation.kernel, operation.padding
    return (
        operation.ifm2 is None
        and operation.ifm.shape == operation.ofm.shape
        and (kernel.height, kernel.width, kernel.stride_y, kernel.stride_x) == (1, 1, 1, 1)
        and not any((padding.top, padding.left, padding.bottom, padding.right))
        and operation.ifm.is_single_tile
        and operation.ofm.is_single_tile
    )


def forwards(operation: KernelOperation) -> Iterator[KernelOperation]:
    """The kernels that do the work of ``operation`` without a backward step; ``operation`` itself if it has none.

    InputError if it does more than move elements: no kernel of Vela 5.2 with a backward step does.
    """
    strides, shape = operation.ofm.strides, operation.ofm.shape
    backward_y, backward_x = strides.y < 0 and shape.height > 1, strides.x < 0 and shape.width > 1
    inputs = [m for m in (operation.ifm, operation.ifm2) if m is not None]
    reads_backwards = any(min(m.strides.y, m.strides.x, m.strides.c) < 0 for m in inputs)
    if not (backward_y or backward_x or reads_backwards or min(strides.y, strides.x, strides.c) < 0):
        yield operation
        return
    if reads_backwards or strides.c < 0 or not moves_elements(operation):
        raise InputError(f"A kernel ({operation.mnemonic}) has a negative stride and does more than a copy: keep that operator on the CPU.")
    height, width = (1 if backward_y else shape.height), (1 if backward_x else shape.width)
    piece = Shape3D(height, width, shape.depth)
    for y in range(0, shape.height, height):
        for x in range(0, shape.width, width):
            yield replace(operation, ifm=_piece(operation.ifm, y, x, piece), ofm=_piece(operation.ofm, y, x, piece))


_MOST_ROWS = 1 << 16
"""The most rows of a feature map (16-bit HEIGHT registers)."""


def _moves(operation: KernelOperation) -> bool:
    """Whether the operation only moves elements with a base and three strides, without weights or a table.

    Between two kernels a table's slot of SHRAM may get another table.
    """
    alone = operation.scalar is None and not operation.weights and not operation.scales and operation.upscale is Upscale.NONE
    by_strides = operation.ifm.layout is operation.ofm.layout is Layout.NHWC
    return alone and by_strides and operation.activation.kind is not ActivationKind.LUT and moves_elements(operation)


def _without_place(operation: KernelOperation) -> KernelOperation:
    """The features of an operation that all kernels of a loop share."""
    return replace(operation, ifm=operation.ifm.at(0), ofm=operation.ofm.at(0), blockdep=0)


def _step(first: KernelOperation, second: KernelOperation) -> tuple[int, int]:
    """Bytes from one kernel's IFM and OFM base to the next kernel's."""
    return second.ifm.base - first.ifm.base, second.ofm.base - first.ofm.base


def _runs(operations: Sequence[KernelOperation]) -> Iterator[range]:
    """The positions, cut from the first on into the longest runs with a constant step."""
    start = 0
    while start < len(operations):
        end, step = start + 1, None
        body = _without_place(operations[start]) if _moves(operations[start]) else None
        while end < len(operations) and _moves(operations[end]) and _without_place(operations[end]) == body:
            found = _step(operations[end - 1], operations[end])
            if step not in (None, found):
                break
            step, end = found, end + 1
        yield range(start, end)
        start = end


def _is_apart(run: Sequence[KernelOperation]) -> bool:
    """Whether the kernels of a run may run in any order: none writes a byte that another one writes or any one reads."""
    written = [byte_numbers(operation.ofm) for operation in run]
    every = np.unique(np.concatenate(written))
    if every.size != sum(one.size for one in written):
        return False
    read = np.unique(np.concatenate([byte_numbers(operation.ifm) for operation in run]))
    return run[0].ifm.region != run[0].ofm.region or not np.intersect1d(every, read, assume_unique=True).size


def _looped(feature_map: FeatureMap, rows: int, step: int, inner: int, *, along_x: bool) -> FeatureMap:
    """The map of row ``inner`` (``along_x``: column) of every kernel of a run, one row for each kernel."""
    shape, strides = feature_map.shape, feature_map.strides
    width, stride = (shape.height, strides.y) if along_x else (shape.width, strides.x)
    base = feature_map.base + inner * (strides.x if along_x else strides.y)
    return replace(feature_map.at(base, Shape3D(rows, width, shape.depth)), strides=Strides(step, stride, strides.c))


def _merged(run: Sequence[KernelOperation]) -> Sequence[KernelOperation]:
    """The run with one row for each of its kernels: one new kernel for each row, or for each column, where there are fewer."""
    first, shape = run[0], run[0].ofm.shape
    along_x = shape.width < shape.height
    count = min(shape.width, shape.height)
    ifm_step, ofm_step = _step(run[0], run[1]) if len(run) > 1 else (0, 0)
    outermost = max(first.ofm.strides.y * (shape.height > 1), first.ofm.strides.x * (shape.width > 1))
    if not (len(run) > count and len(run) <= _MOST_ROWS and ifm_step > 0 and ofm_step >= outermost and _is_apart(run)):
        return run
    return [
        replace(
            first,
            ifm=_looped(first.ifm, len(run), ifm_step, inner, along_x=along_x),
            ofm=_looped(first.ofm, len(run), ofm_step, inner, along_x=along_x),
            blockdep=0,
        )
        for inner in range(count)
    ]


def merged(operations: Sequence[KernelOperation]) -> Iterator[tuple[range, Sequence[KernelOperation]]]:
    """For each run of similar moves, its replacement if that has fewer kernels and their order does not matter; otherwise its own kernels.

    A run is a range of positions in ``operations``. An operation in no range is a run of its own.
    """
    for run in _runs(operations):
        yield run, _merged(operations[run.start : run.stop])


def spared_kernels(network: CompiledNetwork) -> int:
    """The number of kernels that merged loops spare in all programs of the network."""
    programs = ([op for op in program.operations if isinstance(op, KernelOperation)] for program in network.programs)
    return sum(len(run) - len(operations) for kernels in programs for run, operations in merged(kernels))
