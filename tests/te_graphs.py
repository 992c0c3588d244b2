"""Small quantised graphs as Tensor Expressions, each beside its value in numpy, which shares no code with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from cascader.tensorir.compat import load, shape_of

Array = npt.NDArray[Any]
Pads = tuple[int, int, int, int]
"""Rows and columns around: top, left, bottom, right."""


@dataclass
class Quantised:
    """A graph as it grows: each method adds an operator and returns its tensor; ``value`` has every tensor's elements."""

    rng: np.random.Generator
    inputs: dict[Any, Array] = field(default_factory=dict)
    constants: dict[Any, Array] = field(default_factory=dict)
    value: dict[Any, Array] = field(default_factory=dict)

    def input(self, *shape: int) -> Any:
        tensor = load().te.placeholder(shape, "int8", name=f"input{len(self.inputs)}")
        self.inputs[tensor] = self.value[tensor] = self.rng.integers(-128, 128, shape).astype(np.int8)
        return tensor

    def constant(self, name: str, array: Array) -> Any:
        tensor = load().te.placeholder(array.shape, str(array.dtype), name=name)
        self.constants[tensor] = array
        return tensor

    def conv(self, x: Any, name: str, channels: int, kernel: int = 3, stride: int = 1, dilation: int = 1, pad: Pads | None = None) -> Any:
        """Convolution; ``channels`` 0 makes it depthwise."""
        te = load().te
        c_in = shape_of(x)[2]
        pads = pad if pad is not None else ((kernel - 1) * dilation // 2,) * 4
        padded = self.pad(x, name, pads)
        extent = (kernel - 1) * dilation + 1
        height, width = ((shape_of(padded)[axis] - extent) // stride + 1 for axis in (0, 1))
        shape = (kernel, kernel, c_in, channels) if channels else (kernel, kernel, c_in)
        weights = self.rng.integers(-127, 128, shape).astype(np.int8)
        bias = self.rng.integers(-900, 900, (channels or c_in,)).astype(np.int32)
        w, b = self.constant(f"{name}_w", weights), self.constant(f"{name}_b", bias)
        ry, rx, rc = (te.reduce_axis((0, size), axis) for size, axis in ((kernel, "ry"), (kernel, "rx"), (c_in, "rc")))

        def dense(y: Any, x: Any, c: Any) -> Any:
            read = padded[y * stride + ry * dilation, x * stride + rx * dilation, rc].astype("int32")
            return te.sum(read * w[ry, rx, rc, c].astype("int32"), axis=[ry, rx, rc])

        def depthwise(y: Any, x: Any, c: Any) -> Any:
            read = padded[y * stride + ry * dilation, x * stride + rx * dilation, c].astype("int32")
            return te.sum(read * w[ry, rx, c].astype("int32"), axis=[ry, rx])

        total = te.compute((height, width, channels or c_in), dense if channels else depthwise, name=f"{name}_acc")
        out = self._requantised(total, b, name, 9)
        taps = _windows(_padded(self.value[x], pads, 0), kernel, stride, dilation, (height, width)).astype(np.int64)
        kernel_value = weights.astype(np.int64)
        summed = np.einsum("hwijc,ijcd->hwd", taps, kernel_value) if channels else np.einsum("hwijc,ijc->hwc", taps, kernel_value)
        self.value[out] = _clipped((summed + bias + 256) >> 9)
        return out

    def pool(self, x: Any, name: str, kernel: int = 2, stride: int = 2, *, largest: bool = True, pad: Pads = (0, 0, 0, 0)) -> Any:
        """Pooling, the largest element or the sum divided by 4 and rounded down."""
        te = load().te
        lowest = -128 if largest else 0
        padded = self.pad(x, name, pad, lowest)
        height, width = ((shape_of(padded)[axis] - kernel) // stride + 1 for axis in (0, 1))
        ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")

        def taps(y: Any, x: Any, c: Any) -> Any:
            read = padded[y * stride + ry, x * stride + rx, c]
            return te.max(read, axis=[ry, rx]) if largest else te.sum(read.astype("int32"), axis=[ry, rx])

        windows = _windows(_padded(self.value[x], pad, lowest), kernel, stride, 1, (height, width))
        if largest:
            out = te.compute((height, width, shape_of(x)[2]), taps, name=name)
            self.value[out] = windows.max(axis=(2, 3))
        else:
            total = te.compute((height, width, shape_of(x)[2]), taps, name=f"{name}_acc")
            out = te.compute(total.shape, lambda y, x, c: _clip(total[y, x, c] >> 2), name=name)
            self.value[out] = _clipped(windows.astype(np.int64).sum(axis=(2, 3)) >> 2)
        return out

    def add(self, a: Any, b: Any, name: str) -> Any:
        """The mean of two tensors, rounded."""
        out = load().te.compute(
            a.shape, lambda y, x, c: _clip((a[y, x, c].astype("int32") + b[y, x, c].astype("int32") + 1) >> 1), name=name
        )
        self.value[out] = _clipped((self.value[a].astype(np.int64) + self.value[b] + 1) >> 1)
        return out

    def concat(self, a: Any, b: Any, name: str) -> Any:
        """Along the channels."""
        compat = load()
        (height, width, first), second = shape_of(a), shape_of(b)[2]

        def choose(y: Any, x: Any, c: Any) -> Any:
            return compat.tirx.if_then_else(c < first, a[y, x, c], b[y, x, c - first])

        out = compat.te.compute((height, width, first + second), choose, name=name)
        self.value[out] = np.concatenate([self.value[a], self.value[b]], axis=2)
        return out

    def upsample(self, x: Any, name: str) -> Any:
        """Every row and column twice."""
        height, width, channels = shape_of(x)
        out = load().te.compute((2 * height, 2 * width, channels), lambda y, z, c: x[y // 2, z // 2, c], name=name)
        self.value[out] = self.value[x].repeat(2, axis=0).repeat(2, axis=1)
        return out

    def pad(self, x: Any, name: str, pads: Pads, element: int = 0) -> Any:
        """A frame of equal elements; the tensor itself if there is none."""
        if not any(pads):
            return x
        compat = load()
        top, left, bottom, right = pads
        height, width, channels = shape_of(x)

        def framed(y: Any, z: Any, c: Any) -> Any:
            inside = compat.tirx.all(y >= top, y < height + top, z >= left, z < width + left)
            return compat.tirx.if_then_else(inside, x[y - top, z - left, c], compat.tirx.const(element, "int8"))

        return compat.te.compute((height + top + bottom, width + left + right, channels), framed, name=f"{name}_pad")

    def _requantised(self, total: Any, bias: Any, name: str, shift: int) -> Any:
        te = load().te
        scaled = te.compute(total.shape, lambda y, x, c: (total[y, x, c] + bias[c] + (1 << (shift - 1))) >> shift, name=f"{name}_scaled")
        return te.compute(total.shape, lambda y, x, c: _clip(scaled[y, x, c]), name=name)


def _clip(value: Any) -> Any:
    tirx = load().tirx
    return tirx.max(tirx.min(value, tirx.const(127, "int32")), tirx.const(-128, "int32")).astype("int8")


def _clipped(values: Array) -> Array:
    return np.clip(values, -128, 127).astype(np.int8)


def _padded(values: Array, pads: Pads, element: int) -> Array:
    top, left, bottom, right = pads
    return np.pad(values, ((top, bottom), (left, right), (0, 0)), constant_values=element)


def _windows(values: Array, kernel: int, stride: int, dilation: int, shape: tuple[int, int]) -> Array:
    """Elements under each tap of each window: (rows, columns, taps down, taps across, channels)."""
    rows = np.arange(shape[0])[:, None] * stride + np.arange(kernel)[None, :] * dilation
    columns = np.arange(shape[1])[:, None] * stride + np.arange(kernel)[None, :] * dilation
    return values[rows[:, None, :, None], columns[None, :, None, :], :]


def random_graph(seed: int) -> tuple[Quantised, Any]:
    """A graph of 2 to 6 operators of all kinds and its output, the same for the same seed."""
    choose = Random(seed)
    graph = Quantised(np.random.default_rng(seed))
    x = graph.input(choose.choice((9, 12, 16)), choose.choice((8, 11, 12)), choose.choice((2, 4)))
    for index in range(choose.randint(2, 5)):
        x = _random_operator(graph, x, f"op{index}", choose)
    return graph, graph.conv(x, "last", choose.choice((2, 3, 4)), kernel=choose.choice((1, 3)))


def _random_operator(graph: Quantised, x: Any, name: str, choose: Random) -> Any:
    height, width, channels = shape_of(x)
    kinds = ["conv", "depthwise", "dilated", "uneven", "residual", "concat", "average"]
    kinds += ["strided", "pool"] if min(height, width) >= 7 else []
    kinds += ["upsample"] if max(height, width) <= 12 else []
    kinds += ["valid"] if min(height, width) >= 5 else []
    kind = choose.choice(kinds)
    made = {
        "conv": lambda: graph.conv(x, name, choose.choice((2, 4)), kernel=choose.choice((1, 3))),
        "depthwise": lambda: graph.conv(x, name, 0, kernel=choose.choice((3, 5))),
        "dilated": lambda: graph.conv(x, name, 3, dilation=2),
        "uneven": lambda: graph.conv(x, name, 3, pad=(0, 2, 2, 0)),
        "residual": lambda: graph.add(x, graph.conv(graph.conv(x, f"{name}_a", 4), f"{name}_b", channels, kernel=1), name),
        "concat": lambda: graph.concat(graph.conv(x, f"{name}_a", 2), graph.pool(x, f"{name}_b", 3, 1, pad=(1, 1, 1, 1)), name),
        "average": lambda: graph.pool(x, name, 2, 1, largest=False, pad=(0, 0, 1, 1)),
        "strided": lambda: graph.conv(x, name, 4, stride=2, pad=(0, 0, 1, 1)),
        "pool": lambda: graph.pool(x, name),
        "upsample": lambda: graph.upsample(x, name),
        "valid": lambda: graph.conv(x, name, 3, pad=(0, 0, 0, 0)),
    }
    return made[kind]()


def named(arrays: dict[Any, Array]) -> dict[str, Array]:
    """Arrays by the names of their tensors."""
    return {str(tensor.op.name): array for tensor, array in arrays.items()}
