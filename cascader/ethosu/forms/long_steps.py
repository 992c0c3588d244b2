"""Long steps: pools and convolutions that step over more than 3 elements. A compiler runs a kernel for each position; few kernels do.

- Columns of a convolution: the pixels of a window's row are contiguous (NHWC), so they can be the channels of one pixel. A pixel of the map
  is then the start of a window: the window is one column wide and steps from pixel to pixel.
- Columns of a window of a single row, in one row: its columns are the rows of a map whose columns are the windows.
- A maximum over adjacent windows is a maximum of maxima: of 8 x 8 in steps of 8, three of 2 x 2 in steps of 2.
- Any other grid becomes a kernel for each column, with all its rows.

Rows with larger steps than 3 stay unchanged. Such a kernel runs row by row, and a single row has no step (``RowPart.most_rows``). The same
elements are summed, or compared, with the same factors, and the same bytes are written.

A position grid is a run of kernels with one position each, which are one kernel whose window has a long step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import (
    LONGEST_STRIDE,
    ActivationKind,
    Kernel,
    KernelOperation,
    Layout,
    OperationKind,
    Padding,
    PoolKind,
    Strides,
    Upscale,
)
from npu_model.shapes import Shape3D
from npu_model.weight_stream.streams import has_streams


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


_DEEPEST = 1 << 16
"""The most channels in the registers of a feature map."""


class _Made(Struct, frozen=True):
    """Kernels that replace a grid, each with the tensor that it reads and writes; ``tensors`` are new ones between them."""

    kernels: tuple[EthosuPart, ...]
    tensors: tuple[Tensor, ...] = ()


def _is_far(operation: KernelOperation) -> bool:
    """Whether the windows of an operation step further than the NPU's can, along any axis."""
    return max(operation.kernel.stride_y, operation.kernel.stride_x) > LONGEST_STRIDE


def _with_deep_pixels(position: KernelOperation, operation: KernelOperation, maker: KernelMaker) -> KernelOperation | None:
    """A convolution on pixels that are the rows of its windows; None for another kernel, or if these rows are not contiguous."""
    ifm, kernel, depth = operation.ifm, operation.kernel, operation.ifm.shape.depth
    together = ifm.layout is Layout.NHWC and ifm.strides.x == depth * ifm.dtype.bytes and kernel.dilation_x == 1
    if operation.kind is not OperationKind.CONV_2D or not (together and has_streams(operation)) or kernel.width * depth > _DEEPEST:
        return None
    shape = Shape3D(ifm.shape.height, operation.ofm.shape.width, kernel.width * depth)
    strides = Strides(ifm.strides.y, kernel.stride_x * ifm.strides.x, ifm.strides.c)
    made = replace(
        operation,
        ifm=replace(ifm.at(ifm.base, shape), strides=strides),
        kernel=replace(kernel, width=1, stride_x=1),
    )
    return maker.encoded(position, made, (operation.ofm.shape.depth, kernel.height, 1, kernel.width * depth))


def _on_its_side(position: KernelOperation, operation: KernelOperation, maker: KernelMaker) -> KernelOperation | None:
    """The kernel of a window with one row, in one row, with the window's columns as rows; None if it has more rows."""
    ifm, kernel, ofm = operation.ifm, operation.kernel, operation.ofm
    flat = kernel.height == ofm.shape.height == 1 and ifm.layout is Layout.NHWC
    if not flat:
        return None
    shape = Shape3D(kernel.width, ofm.shape.width, ifm.shape.depth)
    strides = Strides(kernel.dilation_x * ifm.strides.x, kernel.stride_x * ifm.strides.x, ifm.strides.c)
    made = replace(operation, ifm=replace(ifm.at(ifm.base, shape), strides=strides), kernel=Kernel(height=kernel.width))
    channels = 1 if operation.kind is OperationKind.DEPTHWISE else ifm.shape.depth
    return maker.encoded(position, made, (ofm.shape.depth, kernel.width, 1, channels))


def _factors(step: int) -> list[int] | None:
    """Steps of at most 3 whose product is ``step``, the longest first; None if no such steps exist."""
    found = []
    for factor in range(LONGEST_STRIDE, 1, -1):
        while step % factor == 0:
            step //= factor
            found.append(factor)
    return found if step == 1 else None


def _maxima(kernel: EthosuPart, name: str, maker: KernelMaker) -> _Made | None:
    """A maximum over adjacent windows as maxima of maxima; None for another kernel, or if its steps have no such factors."""
    operation, window = kernel.operation, kernel.operation.kernel
    ifm, ofm = operation.ifm, operation.ofm
    side_by_side = (window.height, window.width, window.dilation_y, window.dilation_x) == (window.stride_y, window.stride_x, 1, 1)
    same = ifm.dtype == ofm.dtype and ifm.zero_point == ofm.zero_point and operation.activation.kind is ActivationKind.NONE
    down, right = _factors(window.height), _factors(window.width)
    if operation.pool is not PoolKind.MAX or operation.kind is not OperationKind.POOL or not (side_by_side and same):
        return None
    if down is None or right is None:
        return None
    count = max(len(down), len(right))
    steps = list(zip(down + [1] * (count - len(down)), right + [1] * (count - len(right)), strict=True))
    source, read, kernels, tensors = kernel.ifm, ifm, list[EthosuPart](), list[Tensor]()
    for number, (y, x) in enumerate(steps):
        shape = Shape3D(read.shape.height // y, read.shape.width // x, ofm.shape.depth)
        last = number == count - 1
        target, written = (kernel.ofm, ofm) if last else (f"{name}/maxima{number}", dense_map(ifm, shape))
        made = maker.in_block(replace(operation, ifm=read, ofm=written, kernel=Kernel(y, x, y, x)))
        if made is None:
            return None
        kernels.append(replace(kernel, operation=made, ifm=source, ofm=target))
        if not last:
            extents = (1, shape.height, shape.width, shape.depth)
            tensors.append(Tensor.dense(target, TensorKind.INTERMEDIATE, extents, ofm.dtype.bytes))
        source, read = target, written
    return _Made(tuple(kernels), tuple(tensors))


def _columns(operation: KernelOperation, maker: KernelMaker) -> Iterator[KernelOperation | None]:
    """The operation as kernels of one column each; None for a kernel that fits no block."""
    ifm, ofm, kernel = operation.ifm, operation.ofm, operation.kernel
    for column in range(ofm.shape.width):
        read = Shape3D(ifm.shape.height, kernel.dilated_width, ifm.shape.depth)
        written = Shape3D(ofm.shape.height, 1, ofm.shape.depth)
        yield maker.in_block(
            replace(
                operation,
                ifm=ifm.at(ifm.base + column * kernel.stride_x * Axis.COLUMNS.step(ifm), read),
                ofm=ofm.at(ofm.base + column * Axis.COLUMNS.step(ofm), written),
                kernel=replace(kernel, stride_x=1),
            )
        )


def _made(grid: PositionGrid, position: KernelOperation, maker: KernelMaker) -> _Made | None:
    """The fewest known kernels that do the work of a grid; None if the grid's own kernels are the fewest."""
    kernel, operation = grid.kernel, grid.kernel.operation
    if operation.kernel.stride_x <= LONGEST_STRIDE:
        one = maker.in_block(operation)
    else:
        one = _with_deep_pixels(position, operation, maker) or _on_its_side(position, operation, maker)
    if one is not None:
        return _Made((replace(kernel, operation=one),))
    columns = [made for made in _columns(operation, maker) if made is not None]
    maxima = _maxima(kernel, grid.parts[0], maker)
    if maxima is not None and maker.cycles(made.operation for made in maxima.kernels) < len(grid.parts) * maker.cycles([position]):
        return maxima
    if len(columns) < operation.ofm.shape.width or len(columns) == len(grid.parts):
        return None
    return _Made(tuple(replace(kernel, operation=made) for made in columns))


def with_long_steps(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with few kernels in place of kernels that each compute one position of a pool or convolution with long steps."""
    maker, kernels = KernelMaker(network, accelerator, sources), network.kernels
    found: dict[str, Sequence[EthosuPart]] = {}
    tensors: list[Tensor] = []
    for grid in position_grids(network):
        first = grid.parts[0]
        made = _made(grid, kernels[first].operation, maker) if _is_far(grid.kernel.operation) else None
        if made is not None:
            found |= dict.fromkeys(grid.parts, ()) | {first: made.kernels}
            tensors += made.tensors
    return maker.replaced(found, tensors)
