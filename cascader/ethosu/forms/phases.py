"""Phases: a transposed convolution becomes convolutions of the map before upscaling, for every other row and column.

After an upscaler that inserts zeros, three of four products are with zeros. An even row or column of the result needs other taps of the
window than an odd one. Each combination of the two is a convolution with fewer taps and without zeros. It writes every other pixel of every
other row (NHWC). If pixels are contiguous, an even and an odd column may be computed together, as the channels of one pixel. A result with
few channels then fills the MAC array better. The same products are summed, and the same bytes are written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.brick_tensors import bricks_by_tensor, in_forms
from cascader.ethosu.forms.workbench import Weights, Workbench, in_best_depth, kernel_cycles
from cascader.ethosu.network.network import EthosuPart, Network
from npu_model.accelerator import Accelerator
from npu_model.program import FeatureMap, Kernel, KernelOperation, Layout, OperationKind, Padding, Strides, Upscale
from npu_model.shapes import Shape3D, ceil_div
from npu_model.weight_stream.streams import has_streams


class _Taps(Struct, frozen=True):
    """Every other tap of a window along one axis: ``count`` taps from ``first`` on. The first tap is ``before`` elements ahead."""

    first: int
    count: int
    before: int

    @classmethod
    def of(cls, taps: int, pad: int, phase: int) -> _Taps:
        """The taps of a window after ``pad`` elements of padding that meet no zeros if the result's index modulo 2 is ``phase``.

        With tap k, element e of the result meets element e + k - pad of the upscaled map, which is a zero if that number is odd.
        """
        first = (pad - phase) % 2
        return cls(first, ceil_div(taps - first, 2), (pad - phase - first) // 2)


def _reads(extent: int, taps: int, before: int, outputs: int) -> tuple[int, int, int, int]:
    """The elements that are read along one axis of ``extent``, first and last (exclusive), and the padding before and after them.

    A window of ``taps`` with stride 1 begins ``before`` elements ahead and makes ``outputs`` elements of the result.
    """
    low, high = -before, outputs - 1 - before + taps
    return max(0, low), min(extent, high), max(0, -low), max(0, high - extent)


def _is_transposed(operation: KernelOperation) -> bool:
    """Whether the operation is a transposed convolution of one-tile maps that can be split into phases, once its result is in NHWC."""
    kernel, ifm, ofm = operation.kernel, operation.ifm, operation.ofm
    plain = (kernel.stride_y, kernel.stride_x, kernel.dilation_y, kernel.dilation_x) == (1, 1, 1, 1) and not operation.decompose
    large = min(kernel.height, kernel.width, ifm.shape.height, ifm.shape.width, ofm.shape.height, ofm.shape.width) > 1
    zeros = operation.kind is OperationKind.CONV_2D and operation.upscale is Upscale.ZEROS
    return zeros and plain and large and has_streams(operation) and ifm.is_single_tile and ofm.is_single_tile


def _has_pairs(ofm: FeatureMap) -> bool:
    """Whether the columns form pairs of pixels without a gap."""
    return ofm.strides.x == ofm.shape.depth * ofm.dtype.bytes and ofm.shape.width % 2 == 0


def _every_other(ofm: FeatureMap, row: int, sides: Sequence[int]) -> FeatureMap:
    """Every other row of an NHWC map from ``row`` on, and every other column from the column of ``sides`` on; a pixel joins both sides."""
    rows, columns = ceil_div(ofm.shape.height - row, 2), ceil_div(ofm.shape.width - sides[0], 2)
    shape = Shape3D(rows, columns, len(sides) * ofm.shape.depth)
    strides = Strides(2 * ofm.strides.y, 2 * ofm.strides.x, ofm.strides.c)
    return replace(ofm.at(ofm.address(row, sides[0], 0), shape), strides=strides)


def _phase(operation: KernelOperation, weights: Weights, row: int, sides: Sequence[int]) -> tuple[KernelOperation, Weights]:
    """The kernel of some phases, with its old block and streams, and its weights (OHWI)."""
    padding, kernel = operation.padding, operation.kernel
    down = _Taps.of(kernel.height, padding.top, row)
    across = [_Taps.of(kernel.width, padding.left, side) for side in sides]
    before = max(taps.before for taps in across)
    width = before + max(taps.count - taps.before for taps in across)
    depth, _, _, channels = weights.shape
    made = np.zeros((len(sides) * depth, down.count, width, channels), weights.dtype)
    for number, taps in enumerate(across):
        start = before - taps.before
        made[number * depth : (number + 1) * depth, :, start : start + taps.count] = weights[:, down.first :: 2, taps.first :: 2]
    ofm = _every_other(operation.ofm, row, sides)
    rows = _reads(operation.ifm.shape.height, down.count, down.before, ofm.shape.height)
    columns = _reads(operation.ifm.shape.width, width, before, ofm.shape.width)
    changed = replace(
        operation,
        ifm=operation.ifm.part(rows[:2], columns[:2]),
        ofm=ofm,
        kernel=Kernel(down.count, width),
        padding=Padding(rows[2], columns[2], rows[3], columns[3]),
        upscale=Upscale.NONE,
    )
    return changed, made


class _Kernels(Struct, frozen=True):
    """Kernels that replace one, with their weights (OHWI) still separate, and the cycles estimated for all of them."""

    operations: tuple[KernelOperation, ...]
    weights: tuple[Weights, ...]
    cycles: float


def _kernels(
    operation: KernelOperation, weights: Weights, phases: Sequence[tuple[int, Sequence[int]]], accelerator: Accelerator, sources: Sources
) -> _Kernels | None:
    """One kernel for each of some phases (the row, and the sides); None if no block fits."""
    made = [_phase(operation, weights, row, sides) for row, sides in phases]
    chosen = [best for changed, _ in made if (best := in_best_depth(changed, accelerator, sources)) is not None]
    if len(chosen) < len(made):
        return None
    cycles = sum(sum(one.cycles) for one in chosen)
    return _Kernels(tuple(one.operation for one in chosen), tuple(values for _, values in made), cycles)


def _best(operation: KernelOperation, weights: Weights, accelerator: Accelerator, sources: Sources) -> _Kernels | None:
    """Two kernels for pairs of columns, or four for single columns, by their estimated cycles; None if no blocks fit."""
    ways: list[list[tuple[int, Sequence[int]]]] = [[(row, (side,)) for row in (0, 1) for side in (0, 1)]]
    if _has_pairs(operation.ofm):
        ways.append([(row, (0, 1)) for row in (0, 1)])
    found = (_kernels(operation, weights, way, accelerator, sources) for way in ways)
    return min((kernels for kernels in found if kernels is not None), key=lambda kernels: kernels.cycles, default=None)


def _pieces(kernel: EthosuPart, made: _Kernels, bench: Workbench) -> list[EthosuPart]:
    """The kernels that replace one, with streams of their own."""
    depth = kernel.operation.ofm.shape.depth
    records = bench.records(kernel.operation)
    pieces = []
    for operation, values in zip(made.operations, made.weights, strict=True):
        encoded = bench.with_weights(operation, values)
        scaled = bench.with_records(encoded, records * (operation.ofm.shape.depth // depth))
        pieces.append(replace(kernel, operation=scaled))
    return pieces


def _results(network: Network) -> set[str]:
    """The tensors that transposed convolutions write."""
    return {kernel.ofm for kernel in network.kernels.values() if _is_transposed(kernel.operation)}


def _touching(network: Network, tensors: Collection[str]) -> dict[str, EthosuPart]:
    """The kernels of the parts that touch some tensors."""
    return {name: kernel for name, kernel in network.kernels.items() if any(tensor in tensors for tensor, _ in kernel.maps)}


def in_phases(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with kernels without zeros for every transposed convolution (times two) that is faster this way.

    Their results are stored as NHWC. The network is unchanged if all kernels that touch these tensors are not estimated to be faster
    together.
    """
    results = _results(network)
    if not results:
        return network
    dense = in_forms(network, {name: bricks.dense for name, bricks in bricks_by_tensor(network).items() if name in results})
    before, after = (kernel_cycles(_touching(one, results), accelerator, sources) for one in (network, dense))
    bench, pieces = Workbench(dense, accelerator), dict[str, list[EthosuPart]]()
    for name, kernel in dense.kernels.items():
        if not _is_transposed(kernel.operation) or kernel.operation.ofm.layout is not Layout.NHWC:
            continue
        made = _best(kernel.operation, bench.weights(kernel.operation), accelerator, sources)
        if made is not None and made.cycles < after[name]:
            pieces[name] = _pieces(kernel, made, bench)
            after[name] = made.cycles
    return bench.replaced(pieces) if pieces and sum(after.values()) < sum(before.values()) else network
