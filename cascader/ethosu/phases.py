"""Phases: transposed convolutions as convolutions of the map that is not upscaled, one for every other row.

Behind an upscaler that inserts zeros three of four products are with zeros. An even row of the result needs other rows of the window than
an odd one, so that each of the two is a convolution with fewer taps, without zeros. An even and an odd column lie side by side in
memory (NHWC) and are made together, as the channels of one pixel. The same products are summed, and the same bytes are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cascader.ethosu.block_choice import choose_block
from cascader.ethosu.constants import StreamEditor
from cascader.ethosu.exchanged_axes import is_single_tile
from cascader.ethosu.network import Network, ethosu_part
from cascader.ethosu.slices import with_pieces
from cascader.ethosu.source import Sources
from cascader.graph import Part
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, FeatureMap, Kernel, KernelOperation, Layout, OperationKind, Padding, Strides, Tiles, Upscale
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.shram import BlockQuery, shram_partition
from npu_model.weight_order import WeightFormat
from npu_model.weights import RECORD_BYTES, encode_weights, weights_from_stream

Weights = npt.NDArray[np.integer]

WORTHWHILE = 0.9
"""What part of the estimated cycles of the one kernel both together may take at most."""


@dataclass(frozen=True, slots=True)
class _Taps:
    """Along one axis: every other tap of a window from ``first`` on, ``count`` of them, the first one ``before`` elements ahead."""

    first: int
    count: int
    before: int

    @classmethod
    def of(cls, taps: int, pad: int, phase: int) -> _Taps:
        """Those of a window behind ``pad`` elements of padding that meet no zeros where the result's index modulo 2 is ``phase``.

        Element 2 r + phase of the result meets element 2 r + phase + k - pad of the upscaled map with tap k, and zeros where that is odd.
        """
        first = (pad - phase) % 2
        return cls(first, ceil_div(taps - first, 2), (pad - phase - first) // 2)


@dataclass(frozen=True, slots=True)
class _Window:
    """Along one axis: ``taps`` of a window with stride 1 that begins ``before`` elements ahead, ``outputs`` elements of the result."""

    taps: int
    before: int
    outputs: int

    def reads(self, extent: int) -> tuple[int, int, int, int]:
        """Elements of a map of ``extent`` that are read, first and last (exclusive), and the padding before and after them."""
        low, high = -self.before, self.outputs - 1 - self.before + self.taps
        return max(0, low), min(extent, high), max(0, -low), max(0, high - extent)


def _may_be_split(operation: KernelOperation) -> bool:
    kernel, ofm = operation.kernel, operation.ofm
    plain = (kernel.stride_y, kernel.stride_x, kernel.dilation_y, kernel.dilation_x) == (1, 1, 1, 1) and min(
        kernel.height, kernel.width
    ) > 1
    dense = ofm.layout is Layout.NHWC and ofm.strides.x == ofm.shape.depth * ofm.dtype.bytes and ofm.shape.width % 2 == 0
    one_each = len(operation.weights) == len(operation.scales) == 1
    tiles = is_single_tile(operation.ifm) and is_single_tile(ofm) and ofm.shape.height > 1
    transposed = operation.kind is OperationKind.CONV_2D and operation.upscale is Upscale.ZEROS and not operation.decompose
    return transposed and plain and dense and one_each and tiles and min(operation.ifm.shape.height, operation.ifm.shape.width) > 1


def _part_of(feature_map: FeatureMap, rows: tuple[int, int], columns: tuple[int, int]) -> FeatureMap:
    """Some rows and columns of a feature map of one tile."""
    shape = Shape3D(rows[1] - rows[0], columns[1] - columns[0], feature_map.shape.depth)
    return replace(feature_map, shape=shape, tiles=Tiles.single(shape, feature_map.address(rows[0], columns[0], 0)))


def _every_other_row(ofm: FeatureMap, phase: int) -> FeatureMap:
    """Rows ``phase``, ``phase`` + 2 and so on of a dense map, pairs of its columns as one."""
    shape = Shape3D(ceil_div(ofm.shape.height - phase, 2), ofm.shape.width // 2, 2 * ofm.shape.depth)
    tiles = Tiles.single(shape, ofm.tiles.bases[0] + phase * ofm.strides.y)
    return replace(ofm, shape=shape, strides=Strides(2 * ofm.strides.y, 2 * ofm.strides.x, ofm.strides.c), tiles=tiles)


def _phase(operation: KernelOperation, weights: Weights, phase: int) -> tuple[KernelOperation, Weights]:
    """One kernel, its block and streams still the old ones, and its weights (OHWI)."""
    padding, kernel = operation.padding, operation.kernel
    rows = _Taps.of(kernel.height, padding.top, phase)
    sides = [_Taps.of(kernel.width, padding.left, side) for side in (0, 1)]
    before = max(side.before for side in sides)
    width = before + max(side.count - side.before for side in sides)
    depth, _, _, channels = weights.shape
    made = np.zeros((2 * depth, rows.count, width, channels), weights.dtype)
    for number, side in enumerate(sides):
        start = before - side.before
        made[number * depth : (number + 1) * depth, :, start : start + side.count] = weights[:, rows.first :: 2, side.first :: 2]
    ofm = _every_other_row(operation.ofm, phase)
    down = _Window(rows.count, rows.before, ofm.shape.height).reads(operation.ifm.shape.height)
    across = _Window(width, before, ofm.shape.width).reads(operation.ifm.shape.width)
    changed = replace(
        operation,
        ifm=_part_of(operation.ifm, down[:2], across[:2]),
        ofm=ofm,
        kernel=Kernel(rows.count, width),
        padding=Padding(down[2], across[2], down[3], across[3]),
        upscale=Upscale.NONE,
    )
    return changed, made


def _blocks(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> Iterator[tuple[float, KernelOperation]]:
    """The operation in the best block of each depth and order of weights that fits, with the cycles estimated."""
    ublock, depth = accelerator.ofm_ublock, round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth)
    for deep in sorted({min(depth, accelerator.max_block.depth), *(some for some in (BRICK, 2 * BRICK, 4 * BRICK) if some < depth)}):
        for part_kernel in (False, True):
            one = replace(operation, block=Shape3D(ublock.height, ublock.width, deep), part_kernel=part_kernel)
            if shram_partition(BlockQuery.of(one), one.block, accelerator) is None:
                continue
            block, cycles = choose_block(one, accelerator, sources)
            shram = shram_partition(BlockQuery.of(one), block, accelerator)
            if shram is not None:
                yield cycles, replace(one, block=block, shram=shram)


def _split(part: Part, constants: StreamEditor, accelerator: Accelerator, sources: Sources) -> tuple[Part, ...]:
    """The two parts in place of one, or that alone if they cannot be or gain nothing."""
    payload = ethosu_part(part)
    if payload is None or not _may_be_split(payload.operation):
        return (part,)
    operation = payload.operation
    weights = weights_from_stream(operation, constants.read(operation.weights[0]), accelerator)
    phases = [_phase(operation, weights, phase) for phase in (0, 1)]
    best = [min(_blocks(changed, accelerator, sources), key=lambda found: found[0], default=None) for changed, _ in phases]
    chosen = [found for found in best if found is not None]
    if len(chosen) < 2 or sum(cycles for cycles, _ in chosen) > WORTHWHILE * choose_block(operation, accelerator, sources)[1]:
        return (part,)
    records = constants.read(operation.scales[0])[: operation.ofm.shape.depth * RECORD_BYTES]
    pieces = []
    for number, ((_, changed), (_, values)) in enumerate(zip(chosen, phases, strict=True)):
        stream = constants.append(encode_weights(values, WeightFormat.of(changed), accelerator))
        made = replace(changed, weights=(stream,), scales=(constants.append(records * 2),))
        pieces.append(replace(part, name=f"{part.name}/{number}", payload=replace(payload, operation=made)))
    return tuple(pieces)


def in_phases(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with every transposed convolution (times two) that is faster so as two kernels, one for every other row.

    Its result must be stored densely as NHWC, of an even number of columns.
    """
    constants = StreamEditor(network.constants)
    pieces = {part.name: _split(part, constants, accelerator, sources) for part in network.graph.parts}
    return network if all(len(some) == 1 for some in pieces.values()) else with_pieces(network, pieces, constants)
