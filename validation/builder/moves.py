"""Operators that move elements and compute nothing. Their outputs keep the scale of their inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npu_model.errors import InputError
from validation.builder.base import per_image
from validation.builder.kernels import Array, Pair
from validation.builder.layers import Layers
from validation.builder.recorder import TensorHandle


class Moves(Layers):
    """Transpositions, pads and other copies."""

    def flatten(self, x: TensorHandle, *, name: str | None = None) -> TensorHandle:
        """RESHAPE of ``x`` to (batch, features)."""
        return self.reshape(x, (x.shape[0], math.prod(x.shape[1:])), name=name)

    def squeeze(self, x: TensorHandle, axis: int, *, name: str | None = None) -> TensorHandle:
        """SQUEEZE of one ``axis`` of extent 1."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "squeeze")
        at = self._axis(layer, x, axis)
        if x.shape[at] != 1 or at == 0:
            raise InputError(f"{layer} drops axis {axis} of {x.shape}: give one of extent 1, and not the batch.")
        output = self._moved(layer, value, per_image(value).squeeze(at + 1))
        return self._recorder.operator("SQUEEZE", (x.index,), output, "SqueezeOptions", SqueezeDims=(at,))

    def expand_dims(self, x: TensorHandle, axis: int, *, name: str | None = None) -> TensorHandle:
        """EXPAND_DIMS: a new axis of extent 1 before ``axis``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "expand_dims")
        at = self._axis(layer, x, axis)
        constant = self._integers(f"{layer}/axis", (at,))
        output = self._moved(layer, value, np.expand_dims(per_image(value), at + 1))
        return self._recorder.operator("EXPAND_DIMS", (x.index, constant), output, "ExpandDimsOptions")

    def transpose(self, x: TensorHandle, order: tuple[int, ...], *, name: str | None = None) -> TensorHandle:
        """TRANSPOSE: axis i of the output is axis ``order``[i] of ``x``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "transpose")
        if sorted(order) != list(range(len(x.shape))):
            raise InputError(f"{layer} orders {len(x.shape)} axes as {order}: give each axis once.")
        constant = self._integers(f"{layer}/order", order)
        output = self._moved(layer, value, per_image(value).transpose(0, *(axis + 1 for axis in order)))
        return self._recorder.operator("TRANSPOSE", (x.index, constant), output, "TransposeOptions")

    def reverse(self, x: TensorHandle, axis: int, *, name: str | None = None) -> TensorHandle:
        """REVERSE_V2 along ``axis``."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "reverse")
        at = self._axis(layer, x, axis)
        constant = self._integers(f"{layer}/axis", (at,))
        output = self._moved(layer, value, np.flip(per_image(value), at + 1))
        return self._recorder.operator("REVERSE_V2", (x.index, constant), output, "ReverseV2Options")

    def tile(self, x: TensorHandle, multiples: tuple[int, ...], *, name: str | None = None) -> TensorHandle:
        """TILE: ``x`` repeated ``multiples``[i] times along axis i."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "tile")
        if len(multiples) != len(x.shape) or min(multiples) < 1:
            raise InputError(f"{layer} repeats {x.shape} by {multiples}: give {len(x.shape)} numbers of at least 1.")
        constant = self._integers(f"{layer}/multiples", multiples)
        output = self._moved(layer, value, np.tile(per_image(value), (1, *multiples)))
        return self._recorder.operator("TILE", (x.index, constant), output, "TileOptions")

    def gather(self, x: TensorHandle, indices: Sequence[int], axis: int, *, name: str | None = None) -> TensorHandle:
        """GATHER of the slices ``indices`` along ``axis``; it stays on the CPU."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "gather")
        at = self._axis(layer, x, axis)
        if not indices or not all(0 <= index < x.shape[at] for index in indices):
            raise InputError(f"{layer} takes slices {tuple(indices)} of {x.shape[at]}: give numbers from 0 to {x.shape[at] - 1}.")
        constant = self._integers(f"{layer}/indices", tuple(indices))
        output = self._moved(layer, value, per_image(value).take(list(indices), at + 1))
        return self._recorder.operator("GATHER", (x.index, constant), output, "GatherOptions", Axis=at, BatchDims=0)

    def pack(self, parts: Sequence[TensorHandle], axis: int, *, name: str | None = None) -> TensorHandle:
        """PACK: ``parts`` of one shape and scale, stacked along a new ``axis``."""
        layer, values = self._recorder.layer_name(name, "pack"), [self._recorder.value(part) for part in parts]
        if len({(v.handle.shape, v.scale, v.zero_point) for v in values}) != 1:
            raise InputError(f"{layer} joins {len(values)} tensors that differ in shape or scale: give outputs of like RELU6 layers.")
        output = self._moved(layer, values[0], np.stack([per_image(v) for v in values], axis=axis + 1))
        return self._recorder.operator("PACK", [p.index for p in parts], output, "PackOptions", ValuesCount=len(parts), Axis=axis)

    def pad(self, x: TensorHandle, top: int, bottom: int, left: int, right: int, *, name: str | None = None) -> TensorHandle:
        """PAD of NHWC ``x`` with real zeros in height and width."""
        self._image(x)
        return self.pad_all(x, ((0, 0), (top, bottom), (left, right), (0, 0)), name=name)

    def pad_all(self, x: TensorHandle, amounts: Sequence[Pair], *, name: str | None = None) -> TensorHandle:
        """PAD of ``x`` with real zeros: ``amounts`` (before, after) of each axis."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "pad")
        constant = self._paddings(layer, x, amounts)
        sample = np.pad(per_image(value), ((0, 0), *amounts), constant_values=value.zero_point)
        return self._recorder.operator("PAD", (x.index, constant), self._moved(layer, value, sample), "PadOptions")

    def pad_with(self, x: TensorHandle, amounts: Sequence[Pair], fill: int, *, name: str | None = None) -> TensorHandle:
        """PADV2 of ``x`` with the quantised value ``fill``."""
        value, layer, precision = self._recorder.value(x), self._recorder.layer_name(name, "pad_with"), self._recorder.precision
        constant = self._paddings(layer, x, amounts)
        stored = np.array([fill + precision.offset], dtype=precision.activation_dtype)
        scalar = self._recorder.constant(f"{layer}/fill", stored, precision.activation, (value.scale,), zero_point=value.zero_point)
        sample = np.pad(per_image(value), ((0, 0), *amounts), constant_values=fill)
        return self._recorder.operator("PADV2", (x.index, constant, scalar), self._moved(layer, value, sample), "PadV2Options")

    def mirror_pad(self, x: TensorHandle, amounts: Sequence[Pair], *, name: str | None = None) -> TensorHandle:
        """MIRROR_PAD of ``x``, reflected at its outermost elements, which are not repeated."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "mirror_pad")
        constant = self._paddings(layer, x, amounts)
        sample: Array = np.pad(per_image(value), ((0, 0), *amounts), mode="reflect")
        output = self._moved(layer, value, sample)
        return self._recorder.operator("MIRROR_PAD", (x.index, constant), output, "MirrorPadOptions", Mode=0)

    def _paddings(self, layer: str, x: TensorHandle, amounts: Sequence[Pair]) -> int:
        if len(amounts) != len(x.shape) or any(min(pair) < 0 for pair in amounts):
            raise InputError(f"{layer} pads by {tuple(amounts)}: give {len(x.shape)} pairs of amounts of at least 0.")
        return self._integers(f"{layer}/paddings", tuple(amounts))
