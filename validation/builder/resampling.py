"""Operators that enlarge an image by more than repetition: bilinear resizes and transposed convolutions."""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from validation.builder.base import PADDINGS, Weighted, one_of
from validation.builder.kernels import Array, Pair
from validation.builder.layers import ImageGrid, Layers
from validation.builder.recorder import TensorHandle

_TRANSPOSED_DECAYS = (228, 234)


class Resampling(Layers):
    """RESIZE_BILINEAR and TRANSPOSE_CONV."""

    def resize_bilinear(
        self, x: TensorHandle, factor: int = 2, *, align_corners: bool = False, half_pixel: bool = False, name: str | None = None
    ) -> TensorHandle:
        """RESIZE_BILINEAR of NHWC ``x``, sized as :meth:`resize_nearest`; Vela takes ``half_pixel`` for factor 2 alone."""
        value, layer = self._image(x), self._recorder.layer_name(name, "resize")
        grid = ImageGrid(align_corners, half_pixel)
        size, sample = grid.size(layer, x, factor), value.sample
        for axis in (1, 2):
            at = np.clip(grid.positions(x.shape[axis], size[axis - 1]), 0, x.shape[axis] - 1)
            low = np.floor(at).astype(int)
            share = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
            high = np.minimum(low + 1, x.shape[axis] - 1)
            sample = sample.take(low, axis) * (1 - share) + sample.take(high, axis) * share
        return self._resized("RESIZE_BILINEAR", "ResizeBilinearOptions", layer, value, np.rint(sample), grid)

    def transpose_conv(
        self,
        x: TensorHandle,
        filters: int,
        kernel: Pair = (3, 3),
        *,
        strides: Pair = (2, 2),
        padding: str = "SAME",
        activation: str = "NONE",
        name: str | None = None,
    ) -> TensorHandle:
        """TRANSPOSE_CONV of NHWC ``x`` with a bias, weights OHWI; SAME multiplies the size by ``strides``, VALID adds kernel - stride."""
        value, layer = self._image(x), self._recorder.layer_name(name, "transpose_conv")
        if filters < 1 or min(*kernel, *strides) < 1:
            raise InputError(f"{layer} has {filters} filters, kernel {kernel} and strides {strides}: give at least 1 of each.")
        one_of(f"Padding of {layer}", padding, PADDINGS)
        more = [0 if padding == "SAME" else max(kernel[axis] - strides[axis], 0) for axis in (0, 1)]
        size = (x.shape[1] * strides[0] + more[0], x.shape[2] * strides[1] + more[1])
        weights = self._draw(layer, (filters, *kernel, x.shape[3]), _TRANSPOSED_DECAYS)
        sums = _convolve_transposed(value.centred, weights, strides, size)
        shape = self._integers(f"{layer}/shape", (x.shape[0], *size, filters))
        fields = {"Padding": PADDINGS.index(padding), "StrideH": strides[0], "StrideW": strides[1]}
        op = Weighted("TRANSPOSE_CONV", layer, weights, sums, 0, per_channel=True, options="TransposeConvOptions", fields=fields)
        return self._weighted(value, op, activation, shape=shape)


def _convolve_transposed(x: Array, weights: Array, strides: Pair, size: Pair) -> Array:
    """Transposed convolution of ``x`` with ``weights`` OHWI into an output of ``size``, as TFLite places it.

    The output element at y * stride + ky - pad receives row y by kernel row ky; the pad is half of the overhang, rounded down.
    """
    batch, rows, columns, _ = x.shape
    _, height, width, _ = weights.shape
    reach = ((rows - 1) * strides[0] + height, (columns - 1) * strides[1] + width)
    total = np.zeros((batch, *(max(r, s) for r, s in zip(reach, size, strict=True)), weights.shape[0]))
    for ky in range(height):
        for kx in range(width):
            bottom, right = ky + (rows - 1) * strides[0] + 1, kx + (columns - 1) * strides[1] + 1
            total[:, ky : bottom : strides[0], kx : right : strides[1]] += x @ weights[:, ky, kx, :].T
    top, left = (max(r - s, 0) // 2 for r, s in zip(reach, size, strict=True))
    return total[:, top : top + size[0], left : left + size[1]]
