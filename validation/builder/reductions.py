"""Operators that reduce axes or normalise along them: means, sums, extremes, and products of two matrices."""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.tflite.schema import tflite
from validation.builder.base import per_image
from validation.builder.kernels import Array
from validation.builder.layers import Layers
from validation.builder.recorder import TensorHandle


class Reductions(Layers):
    """Reductions, ARG_MAX and BATCH_MATMUL."""

    def mean(self, x: TensorHandle, axes: tuple[int, ...] = (1, 2), *, keep: bool = False, name: str | None = None) -> TensorHandle:
        """MEAN over ``axes``, which stay with extent 1 if ``keep``."""
        return self._reduced("MEAN", x, axes, keep=keep, name=name)

    def sum(self, x: TensorHandle, axes: tuple[int, ...], *, keep: bool = False, name: str | None = None) -> TensorHandle:
        """SUM over ``axes``."""
        return self._reduced("SUM", x, axes, keep=keep, name=name)

    def reduce_max(self, x: TensorHandle, axes: tuple[int, ...], *, keep: bool = False, name: str | None = None) -> TensorHandle:
        """REDUCE_MAX over ``axes``; the output keeps the scale."""
        return self._reduced("REDUCE_MAX", x, axes, keep=keep, name=name)

    def reduce_min(self, x: TensorHandle, axes: tuple[int, ...], *, keep: bool = False, name: str | None = None) -> TensorHandle:
        """REDUCE_MIN over ``axes``; the output keeps the scale."""
        return self._reduced("REDUCE_MIN", x, axes, keep=keep, name=name)

    def arg_max(self, x: TensorHandle, *, wide: bool = False, name: str | None = None) -> TensorHandle:
        """ARG_MAX along the last axis: 32-bit numbers of channels, 64-bit ones if ``wide``, which only the user reads."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "arg_max")
        constant = self._recorder.constant(f"{layer}/axis", np.array(len(x.shape) - 1, dtype="<i4"), tflite.TensorType.INT32)
        dtype = tflite.TensorType.INT64 if wide else tflite.TensorType.INT32
        output = self._recorder.indices(layer, value.sample.argmax(axis=-1).astype(np.float64), dtype)
        return self._recorder.operator("ARG_MAX", (x.index, constant), output, "ArgMaxOptions", OutputType=dtype)

    def batch_matmul(self, a: TensorHandle, b: TensorHandle, *, transpose_b: bool = False, name: str | None = None) -> TensorHandle:
        """BATCH_MATMUL of ``a`` (..., rows, depth) and ``b`` (..., depth, columns), or (..., columns, depth) if ``transpose_b``."""
        first, second = self._recorder.value(a), self._recorder.value(b)
        layer = self._recorder.layer_name(name, "batch_matmul")
        depth = b.shape[-1 if transpose_b else -2]
        if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != depth:
            raise InputError(f"{layer} multiplies {a.shape} by {b.shape}: give equally many matrices of equal depth.")
        right = per_image(second) - second.zero_point
        sums = (per_image(first) - first.zero_point) @ (right.swapaxes(-1, -2) if transpose_b else right)
        real = sums.reshape(-1, *sums.shape[2:]) * (first.scale * second.scale)
        output = self._activated(layer, real, "NONE")
        return self._recorder.operator("BATCH_MATMUL", (a.index, b.index), output, "BatchMatMulOptions", AdjY=transpose_b)

    def _reduced(self, kind: str, x: TensorHandle, axes: tuple[int, ...], *, keep: bool, name: str | None) -> TensorHandle:
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, kind.lower())
        at = tuple(self._axis(layer, x, axis) for axis in axes)
        if not at or len(set(at)) < len(at):
            raise InputError(f"{layer} reduces axes {axes}: give each axis once.")
        constant = self._integers(f"{layer}/axes", at)
        inner, along = per_image(value), tuple(axis + 1 for axis in at)
        if kind in {"REDUCE_MAX", "REDUCE_MIN"}:
            extreme: Array = (inner.max if kind == "REDUCE_MAX" else inner.min)(axis=along, keepdims=keep)
            output = self._moved(layer, value, extreme)
        else:
            # Integers add up exactly in any order; division and scaling come after.
            total = (inner - value.zero_point).sum(axis=along, keepdims=keep)
            count = np.prod([x.shape[axis] for axis in at]) if kind == "MEAN" else 1
            real = total.reshape(-1, *total.shape[2:]) * (value.scale / count)
            output = self._activated(layer, real, "NONE")
        return self._recorder.operator(kind, (x.index, constant), output, "ReducerOptions", KeepDims=keep)
