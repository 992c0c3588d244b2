"""Operators that split a tensor, and operators that exchange positions for channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_model.errors import InputError
from validation.builder.base import per_image
from validation.builder.kernels import Pair
from validation.builder.layers import Layers
from validation.builder.recorder import TensorHandle


class Pieces(Layers):
    """Slices, splits and blocks."""

    def slice(self, x: TensorHandle, begin: tuple[int, ...], size: tuple[int, ...], *, name: str | None = None) -> TensorHandle:
        """SLICE: ``size`` elements from ``begin`` on along each axis."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "slice")
        ends = tuple(at + extent for at, extent in zip(begin, size, strict=False))
        self._check_cut(layer, x, begin, ends)
        constants = self._integers(f"{layer}/begin", begin), self._integers(f"{layer}/size", size)
        window = (slice(None), *map(slice, begin, ends))
        cut = per_image(value)[window]
        return self._recorder.operator("SLICE", (x.index, *constants), self._moved(layer, value, cut), "SliceOptions")

    def strided_slice(
        self, x: TensorHandle, begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...], *, name: str | None = None
    ) -> TensorHandle:
        """STRIDED_SLICE: every ``strides``[i]-th element from ``begin`` to before ``end`` along each axis."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "strided_slice")
        self._check_cut(layer, x, begin, end)
        if len(strides) != len(x.shape) or min(strides) < 1:
            raise InputError(f"{layer} has strides {strides}: give {len(x.shape)} of at least 1.")
        constants = [self._integers(f"{layer}/{what}", v) for what, v in (("begin", begin), ("end", end), ("strides", strides))]
        window = (slice(None), *map(slice, begin, end, strides))
        cut = per_image(value)[window]
        return self._recorder.operator("STRIDED_SLICE", (x.index, *constants), self._moved(layer, value, cut), "StridedSliceOptions")

    def split(self, x: TensorHandle, count: int, axis: int = -1, *, name: str | None = None) -> tuple[TensorHandle, ...]:
        """SPLIT into ``count`` equal parts along ``axis``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "split")
        at = self._axis(layer, x, axis)
        if count < 1 or x.shape[at] % count:
            raise InputError(f"{layer} parts {x.shape[at]} elements into {count}: give a divisor of {x.shape[at]}.")
        constant = self._integers(f"{layer}/axis", at)
        parts = np.split(per_image(value), count, at + 1)
        outputs = tuple(self._moved(f"{layer}/{i}", value, part) for i, part in enumerate(parts))
        return self._recorder.operator_of_many("SPLIT", (constant, x.index), outputs, "SplitOptions", {"NumSplits": count})

    def split_at(self, x: TensorHandle, sizes: tuple[int, ...], axis: int = -1, *, name: str | None = None) -> tuple[TensorHandle, ...]:
        """SPLIT_V into parts of ``sizes`` along ``axis``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "split_at")
        at = self._axis(layer, x, axis)
        if not sizes or min(sizes) < 1 or sum(sizes) != x.shape[at]:
            raise InputError(f"{layer} parts {x.shape[at]} elements as {sizes}: give sizes of at least 1 that add up to {x.shape[at]}.")
        constants = self._integers(f"{layer}/sizes", sizes), self._integers(f"{layer}/axis", at)
        parts = np.split(per_image(value), np.cumsum(sizes)[:-1], at + 1)
        outputs = tuple(self._moved(f"{layer}/{i}", value, part) for i, part in enumerate(parts))
        return self._recorder.operator_of_many("SPLIT_V", (x.index, *constants), outputs, "SplitVOptions", {"NumSplits": len(sizes)})

    def unpack(self, x: TensorHandle, axis: int, *, name: str | None = None) -> tuple[TensorHandle, ...]:
        """UNPACK: one tensor, without that ``axis``, for each of its elements."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "unpack")
        at = self._axis(layer, x, axis)
        parts = [part.squeeze(at + 1) for part in np.split(per_image(value), x.shape[at], at + 1)]
        outputs = tuple(self._moved(f"{layer}/{i}", value, part) for i, part in enumerate(parts))
        return self._recorder.operator_of_many("UNPACK", (x.index,), outputs, "UnpackOptions", {"Num": len(parts), "Axis": at})

    def depth_to_space(self, x: TensorHandle, block: int = 2, *, name: str | None = None) -> TensorHandle:
        """DEPTH_TO_SPACE of NHWC ``x``: Vela 5.2 leaves it on the CPU, so it splits a network into two NPU subgraphs."""
        value, layer = self._image(x), self._recorder.layer_name(name, "depth_to_space")
        _, height, width, depth = x.shape
        if block < 1 or depth % block**2:
            raise InputError(f"{layer} has {depth} channels and block {block}: give a multiple of {max(block, 1) ** 2} channels.")
        cells = value.sample.reshape(-1, height, width, block, block, depth // block**2).transpose(0, 1, 3, 2, 4, 5)
        output = self._same_scale(layer, value, cells.reshape(-1, height * block, width * block, depth // block**2))
        return self._recorder.operator("DEPTH_TO_SPACE", (x.index,), output, "DepthToSpaceOptions", BlockSize=block)

    def space_to_depth(self, x: TensorHandle, block: int = 2, *, name: str | None = None) -> TensorHandle:
        """SPACE_TO_DEPTH of NHWC ``x``; it stays on the CPU."""
        value, layer = self._image(x), self._recorder.layer_name(name, "space_to_depth")
        _, height, width, depth = x.shape
        if block < 1 or height % block or width % block:
            raise InputError(f"{layer} has a map of {height}x{width} and block {block}: give a divisor of both.")
        cells = value.sample.reshape(-1, height // block, block, width // block, block, depth).transpose(0, 1, 3, 2, 4, 5)
        output = self._same_scale(layer, value, cells.reshape(-1, height // block, width // block, depth * block**2))
        return self._recorder.operator("SPACE_TO_DEPTH", (x.index,), output, "SpaceToDepthOptions", BlockSize=block)

    def space_to_batch(self, x: TensorHandle, block: Pair, pads: tuple[Pair, Pair], *, name: str | None = None) -> TensorHandle:
        """SPACE_TO_BATCH_ND of NHWC ``x``, padded by ``pads``, as older exporters write a dilated convolution. It stays on the CPU."""
        value, layer = self._image(x), self._recorder.layer_name(name, "space_to_batch")
        batch, depth = x.shape[0], x.shape[3]
        height, width = (x.shape[axis + 1] + sum(pads[axis]) for axis in (0, 1))
        if min(block) < 1 or height % block[0] or width % block[1]:
            raise InputError(f"{layer} has a padded map of {height}x{width} and block {block}: give a divisor of each.")
        constants = self._integers(f"{layer}/block", block), self._integers(f"{layer}/paddings", pads)
        padded = np.pad(per_image(value), ((0, 0), (0, 0), *pads, (0, 0)), constant_values=value.zero_point)
        cells = padded.reshape(-1, batch, height // block[0], block[0], width // block[1], block[1], depth).transpose(0, 3, 5, 1, 2, 4, 6)
        moved = cells.reshape(-1, batch * block[0] * block[1], height // block[0], width // block[1], depth)
        return self._recorder.operator(
            "SPACE_TO_BATCH_ND", (x.index, *constants), self._moved(layer, value, moved), "SpaceToBatchNDOptions"
        )

    def batch_to_space(self, x: TensorHandle, block: Pair, crops: tuple[Pair, Pair], *, name: str | None = None) -> TensorHandle:
        """BATCH_TO_SPACE_ND of NHWC ``x``, cropped by ``crops`` afterwards. It stays on the CPU."""
        value, layer = self._image(x), self._recorder.layer_name(name, "batch_to_space")
        batch, height, width, depth = x.shape
        if min(block) < 1 or batch % (block[0] * block[1]):
            raise InputError(f"{layer} has a batch of {batch} and block {block}: give one whose product divides it.")
        constants = self._integers(f"{layer}/block", block), self._integers(f"{layer}/crops", crops)
        cells = per_image(value).reshape(-1, *block, batch // (block[0] * block[1]), height, width, depth).transpose(0, 3, 4, 1, 5, 2, 6)
        whole = cells.reshape(-1, batch // (block[0] * block[1]), height * block[0], width * block[1], depth)
        (top, bottom), (left, right) = crops
        moved = whole[:, :, top : whole.shape[2] - bottom, left : whole.shape[3] - right]
        return self._recorder.operator(
            "BATCH_TO_SPACE_ND", (x.index, *constants), self._moved(layer, value, moved), "BatchToSpaceNDOptions"
        )

    @staticmethod
    def _check_cut(layer: str, x: TensorHandle, begin: Sequence[int], end: Sequence[int]) -> None:
        fits = len(begin) == len(end) == len(x.shape) and all(
            0 <= low < high <= extent for low, high, extent in zip(begin, end, x.shape, strict=True)
        )
        if not fits:
            raise InputError(f"{layer} cuts from {tuple(begin)} to {tuple(end)} out of {x.shape}: stay within the tensor.")
