"""Position grids: runs of kernels with one position each. A grid of such kernels is one kernel whose window has a long step.

The NPU's windows step over 3 elements at most. A compiler makes a kernel for each position of a pool or convolution with a longer step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.graph.cascader_graph import Part
from npu_model.program import KernelOperation, OperationKind, Padding, Upscale
from npu_model.shapes import Shape3D


class PositionGrid(Struct, frozen=True):
    """The names of parts that compute one position each, and the kernel that computes all of them."""

    parts: tuple[str, ...]
    kernel: EthosuPart


def _is_position(kernel: EthosuPart) -> bool:
    """Whether an operation is a window at one position: a convolution or pool of a single pixel, without padding."""
    operation = kernel.operation
    ifm, ofm, window = operation.ifm, operation.ofm, operation.kernel
    single = ofm.shape.height == ofm.shape.width == 1 and operation.ifm2 is None and operation.upscale is Upscale.NONE
    inside = operation.padding == Padding() and (ifm.shape.height, ifm.shape.width) == (window.dilated_height, window.dilated_width)
    in_arena = ifm.region == ofm.region == ARENA and ifm.is_single_tile and kernel.lut is None
    return operation.kind is not OperationKind.ELEMENTWISE and single and inside and in_arena and not operation.decompose


def _without_place(part: Part) -> EthosuPart | None:
    """The features that all kernels of a grid share; None for another kernel."""
    kernel = ethosu_part(part)
    if kernel is None or not _is_position(kernel):
        return None
    operation = kernel.operation
    return replace(kernel, operation=replace(operation, ifm=operation.ifm.at(0), ofm=operation.ofm.at(0), blockdep=0))


def _runs(network: Network) -> Iterator[tuple[str, ...]]:
    """Consecutive parts that compute one position each, and differ only in the position."""
    for kernel, run in groupby(network.graph.parts, _without_place):
        names = tuple(part.name for part in run)
        if kernel is not None and len(names) > 1:
            yield names


def _steps(bases: Sequence[int], width: int) -> tuple[int, int] | None:
    """Bytes from row to row and from column to column of positions in row-major order; None if these are not the same everywhere."""
    down = bases[width] - bases[0] if len(bases) > width else 0
    right = bases[1] - bases[0] if width > 1 else 0
    regular = all(base == bases[0] + number // width * down + number % width * right for number, base in enumerate(bases))
    return (down, right) if regular and min(down, right) >= 0 else None


def _stride(step: int, unit: int) -> int | None:
    """The number of elements of ``unit`` bytes in a step, 1 for no step; None if the step is not whole."""
    return (step // unit or 1) if unit and step % unit == 0 else None


def _whole(operations: Sequence[KernelOperation]) -> KernelOperation | None:
    """The kernel of some positions, in the order of their OFM's bytes; None if they are not a grid.

    Its step may be longer than the NPU's.
    """
    ifm, ofm, window = operations[0].ifm, operations[0].ofm, operations[0].kernel
    width = sum(one.ofm.base - ofm.base < ofm.strides.y for one in operations)
    read, written = (_steps([m.base for m in maps], width) for maps in ([one.ifm for one in operations], [one.ofm for one in operations]))
    if read is None or written is None or not width or len(operations) % width:
        return None
    height = len(operations) // width
    if (height > 1 and written[0] != ofm.strides.y) or (width > 1 and written[1] != Axis.COLUMNS.step(ofm)):
        return None
    steps = _stride(read[0], ifm.strides.y), _stride(read[1], Axis.COLUMNS.step(ifm))
    if steps[0] is None or steps[1] is None:
        return None
    rows, columns = (height - 1) * steps[0] + ifm.shape.height, (width - 1) * steps[1] + ifm.shape.width
    return replace(
        operations[0],
        ifm=ifm.at(ifm.base, Shape3D(rows, columns, ifm.shape.depth)),
        ofm=ofm.at(ofm.base, Shape3D(height, width, ofm.shape.depth)),
        kernel=replace(window, stride_y=steps[0], stride_x=steps[1]),
        blockdep=0,
    )


def position_grids(network: Network) -> Iterator[PositionGrid]:
    """The grids of a network's kernels with one position each, in order. Their kernels may have longer steps than the NPU's."""
    kernels = network.kernels
    for names in _runs(network):
        first = kernels[names[0]]
        if first.ifm == first.ofm:
            continue
        whole = _whole(sorted((kernels[name].operation for name in names), key=lambda operation: operation.ofm.base))
        if whole is not None:
            yield PositionGrid(names, replace(first, operation=whole))
