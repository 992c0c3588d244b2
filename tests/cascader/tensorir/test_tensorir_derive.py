"""Propagators derived from Tensor Expressions: equal to the hand-written ones, and never less than what is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips where TVM is missing
from msgspec.structs import replace
from small_programs import conv as conv_operation
from small_programs import feature_map

from cascader.ethosu.network.operators import elementwise_propagator, kernel_propagator, weight_propagator
from cascader.graph.intervals import Box, whole
from cascader.graph.propagator import Propagator
from cascader.graph.stored_axes import StoredAxes, StoredView
from cascader.tensorir.compat import load, shape_of, walk
from cascader.tensorir.derive import derive
from cascader.tensorir.stages import StageGraph, read_stages
from npu_model.program import Kernel, KernelOperation, OperationKind, Padding, PoolKind, Upscale
from npu_model.shapes import Shape3D

KINDS = ("convolution", "depthwise", "maximum", "average", "sum of channels")


def derived(inputs: list[Any], output: Any) -> dict[str, Propagator]:
    graph = read_stages(inputs, [output])
    return derive(graph, graph.stages)


def placeholder(*shape: int, name: str = "x") -> Any:
    return load().te.placeholder(shape, "int32", name=name)


def compute(shape: tuple[int, ...], body: Any) -> Any:
    return load().te.compute(shape, body, name="out")


def operator(operation: KernelOperation, *, brick: bool = False) -> tuple[list[Any], Any]:
    """The Tensor Expressions of an operation as a chain: upscale, pad, accumulate, clamp, write (into bricks)."""
    te, tirx = load().te, load().tirx
    kernel, pads, depth = operation.kernel, operation.padding, operation.ifm.shape.depth
    x = placeholder(1, operation.ifm.shape.height, operation.ifm.shape.width, depth)
    mixes = operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM
    w = placeholder(operation.ofm.shape.depth, kernel.height, kernel.width, depth if mixes else 1, name="w")
    scale = 1 if operation.upscale is Upscale.NONE else 2
    height, width = scale * operation.ifm.shape.height, scale * operation.ifm.shape.width
    read = te.compute((1, height, width, depth), lambda n, y, z, c: x[n, y // scale, z // scale, c] if scale > 1 else x[n, y, z, c])

    def framed(n: Any, y: Any, z: Any, c: Any) -> Any:
        inside = tirx.all(y >= pads.top, y < height + pads.top, z >= pads.left, z < width + pads.left)
        return tirx.if_then_else(inside, read[n, y - pads.top, z - pads.left, c], 0)

    padded = te.compute((1, height + pads.top + pads.bottom, width + pads.left + pads.right, depth), framed)
    ry, rx, rc = te.reduce_axis((0, kernel.height)), te.reduce_axis((0, kernel.width)), te.reduce_axis((0, depth))

    def taps(n: Any, y: Any, z: Any, c: Any) -> Any:
        at = y * kernel.stride_y + ry * kernel.dilation_y, z * kernel.stride_x + rx * kernel.dilation_x
        value = padded(n, *at, rc if mixes else c)
        if operation.kind is not OperationKind.POOL:
            value *= w[c, ry, rx, rc if mixes else 0]
        axes = [ry, rx, rc] if mixes else [ry, rx]
        return te.max(value, axis=axes) if operation.pool is PoolKind.MAX else te.sum(value, axis=axes)

    ofm = operation.ofm.shape
    total = te.compute((1, ofm.height, ofm.width, ofm.depth), taps)
    clamped = te.compute(total.shape, lambda *at: tirx.min(tirx.max(total(*at), 0), 255))
    inputs = [x] if operation.kind is OperationKind.POOL else [x, w]
    if not brick:
        return inputs, te.compute(clamped.shape, lambda n, y, z, c: clamped[n, y, z, c])
    bricks = (1, ofm.height, -(-ofm.depth // 16), ofm.width, 16)
    return inputs, te.compute(bricks, lambda n, y, b, z, c: tirx.if_then_else(b * 16 + c < ofm.depth, clamped[n, y, z, b * 16 + c], 0))


def operations() -> Iterator[KernelOperation]:
    kernels = [Kernel(h, w, s, s, d, d) for (h, w), s, d in product(((1, 1), (3, 3), (2, 5)), (1, 2, 3), (1, 2))]
    for kind, kernel, padding, upscale in product(KINDS, kernels, (Padding(), Padding(1, 2, 2, 1)), (Upscale.NONE, Upscale.NEAREST)):
        ofm = Shape3D(4, 5, 1 if kind == "sum of channels" else 6)
        plain = conv_operation(ofm, ofm, 6, kernel)
        pool = {"maximum": PoolKind.MAX, "average": PoolKind.AVERAGE, "sum of channels": PoolKind.REDUCE_SUM}.get(kind)
        kinds = {"convolution": OperationKind.CONV_2D, "depthwise": OperationKind.DEPTHWISE}
        yield replace(plain, kind=kinds.get(kind, OperationKind.POOL), pool=pool, padding=padding, upscale=upscale)


def test_derived_propagators_are_the_hand_written_ones_for_every_kernel_stride_dilation_padding_and_upscaling() -> None:
    # All 360 take 10 s; every seventh has each kind, stride, dilation, padding and scale.
    chosen = list(operations())[:: 1 if os.environ.get("NPU_TESTBED_ALL") else 7]
    for operation in chosen:
        found = derived(*operator(operation))
        assert found["x"] == kernel_propagator(operation)
        if operation.kind is OperationKind.CONV_2D:
            assert found["w"] == weight_propagator(operation)
    assert {(operation.kind, operation.pool) for operation in chosen} == {(operation.kind, operation.pool) for operation in operations()}
    assert {operation.kernel for operation in chosen} == {operation.kernel for operation in operations()}


@pytest.mark.parametrize("shapes", [((4, 5, 6), (4, 5, 6)), ((1, 5, 6), (4, 5, 6)), ((1, 1, 6), (4, 5, 6)), ((4, 5, 1), (4, 5, 6))])
def test_broadcast_operands_have_the_hand_written_propagator(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    own, out = shapes
    x = placeholder(1, *own)
    result = compute((1, *out), lambda n, *at: x(n, *(0 if size == 1 else index for size, index in zip(own, at, strict=True))) + 1)
    assert derived([x], result)["x"] == elementwise_propagator(feature_map(Shape3D(*own)), feature_map(Shape3D(*out)))


def test_the_convolution_of_the_rfc_has_the_matrix_of_the_rfc() -> None:
    operation = replace(conv_operation(Shape3D(8, 8, 4), Shape3D(8, 8, 4), 8, Kernel(3, 3)), padding=Padding(1, 1, 1, 1))
    found = derived(*operator(operation))["x"]
    assert found.matrix == ((1, 0, 0, 0, 0), (0, 1, 0, 0, 2), (0, 0, 1, 0, 2), (0, 0, 0, 0, 8), (0, 0, 0, 0, 1))
    assert found.lengths((1, 3, 3, 4)) == (1, 5, 5, 8)


def test_writing_bricks_is_the_same_map_in_the_axes_of_the_bricks() -> None:
    operation = replace(conv_operation(Shape3D(4, 5, 40), Shape3D(4, 5, 40), 6, Kernel(3, 3)), padding=Padding(1, 1, 1, 1))
    found = derived(*operator(operation, brick=True))
    assert found["x"].matrix == ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 2), (0, 0, 0, 1, 0, 2), (0, 0, 0, 0, 0, 6), (0, 0, 0, 0, 0, 1))
    # Channels of the weights: 16 per brick and the one inside it.
    assert found["w"].matrix[0] == (0, 0, 16, 0, 1, -16)
    assert found["w"].offset == (0, 0, 0, 0)


def test_reading_bricks_needs_the_bricks_that_the_hand_written_map_names() -> None:
    x = placeholder(1, 4, 3, 5, 16)
    found = derived([x], compute((1, 4, 5, 40), lambda n, y, z, c: x[n, y, c // 16, z, c % 16]))["x"]
    bricks = StoredAxes((1, 4, 3, 5, 16), (960, 240, 80, 16, 1), 16)
    assert found == bricks.reading(StoredView((0,) * 5, (1,) * 5))


def test_a_chain_of_stages_needs_what_its_stages_need_one_after_the_other() -> None:
    operation = replace(conv_operation(Shape3D(4, 5, 6), Shape3D(4, 5, 6), 6, Kernel(3, 3, 2, 2)), padding=Padding(1, 1, 1, 1))
    inputs, output = operator(operation)
    graph = read_stages(inputs, [output])
    chained = Propagator.identity(4)
    for stage in reversed(graph.stages):
        reads = derive(graph, [stage])
        chained = next(map_ for name, map_ in reads.items() if name != "w") @ chained
    assert chained == derive(graph, graph.stages)["x"]


def gathered(x: Any) -> Any:
    tirx = load().tirx
    return compute((6, 4), lambda y, z: x[tirx.min(tirx.max(x[y, z], 0), 5), z])


INDEXED = {
    "transposed": lambda x: compute((4, 6), lambda y, z: x[z, y]),
    "sliced": lambda x: compute((3, 2), lambda y, z: x[y + 2, 2 * z + 1]),
    "strided": lambda x: compute((2, 4), lambda y, z: x[3 * y, z]),
    "flipped": lambda x: compute((6, 4), lambda y, z: x[5 - y, z]),
    "flattened": lambda x: compute((24,), lambda i: x[i // 4, i % 4]),
    "split": lambda x: compute((2, 3, 4), lambda a, b, z: x[a * 3 + b, z]),
    "merged": lambda x: compute((12, 2), lambda y, z: x[y // 2, y % 2 * 2 + z]),
    "upscaled thrice": lambda x: compute((18, 4), lambda y, z: x[y // 3, z]),
    "upscaled and shifted": lambda x: compute((11, 4), lambda y, z: x[(y + 1) // 2, z]),
    "wrapped": lambda x: compute((6, 4), lambda y, z: x[(y + 2) % 6, z]),
    "diagonal": lambda x: compute((3, 4), lambda y, z: x[y + z // 2, z]),
    "read twice": lambda x: compute((4, 4), lambda y, z: x[y, z] + x[y + 2, z]),
    "read at two speeds": lambda x: compute((3, 4), lambda y, z: x[y, z] + x[2 * y, z]),
    "gathered": gathered,
}


def touched(graph: StageGraph, box: Box) -> set[tuple[int, ...]]:
    """Elements of x that the one stage reads for a box, by evaluating every index; a data-dependent one may be any."""
    (stage,) = graph.stages
    analyser, elements = load().arith.Analyzer(), set[tuple[int, ...]]()
    for at in product(*(range(low, high) for low, high in box)):
        for node in walk(stage.at(at), load().load):
            indices = [analyser.simplify(index) for index in node.indices]
            choices = [[int(index.value)] if isinstance(index, load().tirx.IntImm) else range(6) for index in indices]
            elements |= set(product(*choices))
    return elements


@pytest.mark.parametrize("name", INDEXED)
def test_a_derived_propagator_covers_every_element_that_is_read(name: str) -> None:
    x = placeholder(6, 4)
    output = INDEXED[name](x)
    graph = read_stages([x], [output])
    propagator = derive(graph, graph.stages)["x"]
    intervals = [[(low, high) for low in range(size) for high in range(low + 1, size + 1)] for size in shape_of(output)]
    for box in list(product(*intervals))[:: 7 if len(intervals) > 1 else 1]:
        read = touched(graph, box)
        needed = propagator.demand(box, (6, 4))
        assert all(all(low <= index < high for index, (low, high) in zip(element, needed, strict=True)) for element in read)
        exact = name in ("transposed", "sliced", "strided", "split", "upscaled thrice", "upscaled and shifted", "read twice")
        if exact:
            assert needed == tuple(
                (int(low), int(high) + 1) for low, high in zip(np.min(list(read), 0), np.max(list(read), 0), strict=True)
            )


@pytest.mark.parametrize("name", ["gathered", "flipped", "wrapped"])
def test_an_axis_whose_index_is_not_affine_is_needed_as_a_whole(name: str) -> None:
    x = placeholder(6, 4)
    assert derived([x], INDEXED[name](x))["x"].demand(((0, 1), (0, 4)), (6, 4)) == whole((6, 4))
