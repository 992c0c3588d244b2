"""Propagators of Ethos-U operators: equal to the row form and, element by element, to the addresses that a kernel reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from naive_stripes import run_group
from reference_data import shared_data
from scheduling import network
from small_programs import feature_map, max_pool

from cascader.ethosu.network.network import EthosuPart, ethosu_part
from cascader.ethosu.network.operators import kernel_propagator
from cascader.ethosu.network.propagators import affine_graph
from cascader.ethosu.network.rows import row_graph
from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, TensorKind
from cascader.graph.intervals import Box, elements, whole
from cascader.plan.plan import BufferMode
from cascader.plan.proposals import propose, smallest_limit
from cascader.plan.stripe_plans import StripeOptions, all_plans, group_plans
from cascader.plan.stripe_trace import trace
from examples.stripe_plans import beginning, model_table
from npu_model.program import FeatureMap, Kernel, KernelOperation, Layout, OperationKind, Padding, PoolKind, Upscale
from npu_model.shapes import Shape3D
from validation.zoo import zoo_names

pytestmark = pytest.mark.law

SMALL = ("tiny_conv", "tiny_residual", "resnet8", "ds_cnn", "unet", "cpu")
REAL = ("resnet8_i8", "rnnoise_INT8", "yolo_fastest_192_face_i8", "deeplabv3_mnv3_256_i8")
EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"


@cache
def graph_of(name: str) -> CascaderGraph:
    return affine_graph(network(name))


def names() -> tuple[str, ...]:
    """All networks if everything is asked for, else small ones and the real ones with the oddest tensors."""
    if not EVERY:
        return SMALL + REAL
    return (*zoo_names(), "cpu", *sorted(path.stem for path in (shared_data() / "models").glob("*.tflite")))


def operation_of(part: Part) -> KernelOperation:
    assert isinstance(part.payload, EthosuPart)
    return part.payload.operation


def rows_of(part: Part, first: int, last: int) -> Box:
    """All of the part's rows ``first`` to ``last``."""
    return tuple((first, last) if axis == 1 else interval for axis, interval in enumerate(part.whole))


def operand(part: Part, tensor: str) -> Operand:
    return next(given for given in part.operands if given.tensor == tensor)


@pytest.mark.parametrize("name", [*SMALL, *REAL, "others"])
def test_the_row_axis_is_the_row_form(name: str) -> None:
    compared = 0
    for model in [name] if name != "others" else [each for each in names() if each not in SMALL + REAL]:
        graph, rows = graph_of(model), row_graph(network(model))
        parts = {part.name: part for part in graph.parts}
        for row_part in rows.parts:
            part = parts[row_part.name]
            for index, propagator in row_part.inputs:
                tensor = rows.tensors[index].name
                # What is seen as a view has rows of its own: test_rows.py holds these against bytes.
                if row_part.atomic or propagator.whole or propagator.at is not None or row_part.maps:
                    continue
                everything = graph.demand(operand(part, tensor), rows_of(part, 0, row_part.rows))[1]
                opaque = graph.demand(operand(part, tensor), rows_of(part, 0, 1))[1] == everything
                # By default a dozen rows of each part.
                step = row_part.align if EVERY else max(1, row_part.rows // row_part.align // 12) * row_part.align
                for first in sorted({row_part.border_until(row) for row in range(0, row_part.rows, step)}):
                    for last in {min(row_part.border_from(first + count * row_part.align), row_part.rows) for count in (1, 2, 7, 1000)}:
                        wanted = graph.demand(operand(part, tensor), rows_of(part, first, last))[1]
                        found = propagator.demand(first, last)
                        # Of a tensor taken in several shapes the affine core demands all, in rows of its own: its bytes hold ours.
                        ours, theirs = rows.tensors[index].rows, everything[1]
                        inside = wanted[0] * ours <= found[0] * theirs and found[1] * theirs <= wanted[1] * ours
                        assert found == wanted or (opaque and found[0] < found[1] and inside)
                        compared += 1
    uncut = {"cpu", "rnnoise_INT8"}
    assert compared or name in uncut or (name == "others" and not EVERY)


@pytest.mark.parametrize("name", SMALL + REAL)
def test_the_parts_do_the_work_of_the_network(name: str) -> None:
    for part in graph_of(name).parts:
        if isinstance(part.payload, EthosuPart):
            operation = part.payload.operation
            assert prod(part.shape) * part.work == (operation.macs or operation.ofm.shape.elements)


@pytest.mark.parametrize("name", SMALL + REAL)
def test_a_tensor_has_its_bytes_and_its_producers_cover_what_is_read(name: str) -> None:
    graph, source = graph_of(name), network(name).graph
    for tensor in graph.tensors:
        if tensor.kind is not TensorKind.CONSTANT:
            assert tensor.size == source.tensor(tensor.name).size
    for part in graph.parts:
        for given_input in part.operands:
            producers = graph.writers(given_input.tensor)
            needed = graph.demand(given_input, part.whole)
            assert elements(needed)
            made = sum(elements(graph.parts[index].making(needed)) for index in producers)
            assert not producers or made >= elements(needed)


def test_every_form_of_operator_is_among_the_parts() -> None:
    parts = [part for name in SMALL + REAL for part in graph_of(name).parts if isinstance(part.payload, EthosuPart)]
    operations = [operation_of(part) for part in parts]
    assert {operation.kind for operation in operations} == set(OperationKind) - {OperationKind.RESIZE}, "the Ethos-U85 alone resizes"
    assert {operation.pool for operation in operations} == {None, PoolKind.MAX, PoolKind.AVERAGE, PoolKind.REDUCE_SUM}
    assert {operation.upscale for operation in operations} >= {Upscale.NONE, Upscale.NEAREST}
    assert {operation.ofm.layout for operation in operations} == set(Layout)
    assert any(max(part.offset) for part in parts)
    assert any(max(part.step) > 1 for part in parts)
    assert any(operation.ifm2 and operation.ifm2.shape != operation.ofm.shape for operation in operations)


# Brute force: by addresses.


def taps(operation: KernelOperation, operand_map: FeatureMap, y: int, x: int, c: int) -> Iterator[tuple[int, int, int]]:
    """Elements of an operand (``ifm`` or ``ifm2``) that OFM element (y, x, c) is computed from."""
    shape = operand_map.shape
    if operation.kind is OperationKind.ELEMENTWISE:
        yield min(y, shape.height - 1), min(x, shape.width - 1), min(c, shape.depth - 1)
        return
    kernel, factor = operation.kernel, 1 if operation.upscale is Upscale.NONE else 2
    mixes = operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM
    channels = {0, shape.depth - 1} if mixes else {c}
    for ky in range(kernel.height):
        for kx in range(kernel.width):
            row = y * kernel.stride_y - operation.padding.top + ky * kernel.dilation_y
            column = x * kernel.stride_x - operation.padding.left + kx * kernel.dilation_x
            if 0 <= row < shape.height * factor and 0 <= column < shape.width * factor:
                yield from ((row // factor, column // factor, channel) for channel in channels)


def place(address: int, shape: tuple[int, ...], element_size: int) -> tuple[int, ...]:
    """Index of the element of a tensor that lies at an address."""
    return tuple(int(i) for i in np.unravel_index(address // element_size, shape))


def hull_of(places: list[tuple[int, ...]]) -> Box:
    return tuple((min(axis), max(axis) + 1) for axis in zip(*places, strict=True))


@cache
def elements_by_address(name: str, part: str) -> dict[int, tuple[int, ...]]:
    """OFM elements of a part by the address that the kernel writes them to."""
    payload = ethosu_part(network(name).graph.parts[network(name).graph.index(part)])
    assert payload is not None
    ofm = payload.operation.ofm
    return {ofm.address(*element): element for element in np.ndindex(*_extents(ofm))}


def whole_bricks(box: Box) -> Box:
    """Bricks are read whole."""
    return box if len(box) < 5 else (*box[:4], (0, 16))


def cuttable() -> tuple[tuple[str, int], ...]:
    """(network, part) of one part of each kind of operator, window, layout and operand shapes."""
    found: dict[object, tuple[str, int]] = {}
    for name in SMALL + REAL:
        for index, part in enumerate(graph_of(name).parts):
            payload = part.payload
            if isinstance(payload, EthosuPart) and part.align != part.shape and prod(part.shape) <= 40000:
                operation = payload.operation
                kind = (operation.mnemonic, operation.kernel, operation.padding, operation.upscale, operation.ifm.layout)
                odd = (operation.ofm.layout, operation.ofm.shape.depth % 16 == 0, max(part.offset) > 0, max(part.step))
                seconds = operation.ifm2 and operation.ifm2.shape == operation.ofm.shape
                found.setdefault((*kind, *odd, seconds, operation.ifm.shape == operation.ofm.shape), (name, index))
    return tuple(found.values())


@st.composite
def boxes_of_parts(draw: st.DrawFn) -> tuple[str, Part, Box]:
    """A part and a small stripe of it."""
    name, index = draw(st.sampled_from(cuttable()))
    part = graph_of(name).parts[index]
    drawn = []
    for size, step in zip(part.shape, part.align, strict=True):
        low = draw(st.integers(0, (size - 1) // step)) * step
        drawn.append((low, min(size, low + draw(st.integers(1, 2)) * step)))
    return name, part, tuple(drawn)


@settings(max_examples=few(150), deadline=None)
@given(boxes_of_parts())
def test_a_stripe_needs_the_elements_at_the_addresses_that_its_kernel_reads(drawn: tuple[str, Part, Box]) -> None:
    name, part, box = drawn
    graph = graph_of(name)
    payload = ethosu_part(network(name).graph.parts[network(name).graph.index(part.name)])
    assert payload is not None
    operation, output = payload.operation, graph.tensor(payload.ofm)
    at = elements_by_address(name, part.name)
    made = []
    for own in np.ndindex(*(high - low for low, high in box)):
        element = [part.offset[a] + (low + i) * part.step[a] for a, (i, (low, _)) in enumerate(zip(own, box, strict=True))]
        address = int(np.ravel_multi_index(element, output.shape)) * output.element_size
        if address in at:
            made.append(at[address])
    if not made:
        return
    assert all(part.making(part.written(box))[axis] == interval for axis, interval in enumerate(box))
    for label, read_map in ((payload.ifm, operation.ifm), (payload.ifm2, operation.ifm2)):
        reading = [given_input for given_input in part.operands if given_input.tensor == label]
        if read_map is None or not reading or label == payload.ifm == payload.ifm2:
            continue
        tensor = graph.tensor(reading[0].tensor)
        read = {element for own in made for element in taps(operation, read_map, *own)}
        places = [place(read_map.address(*element), tensor.shape, tensor.element_size) for element in read]
        needed = graph.demand(reading[0], box)
        if needed == whole(tensor.shape):
            assert all(low <= index < high for where in places for index, (low, high) in zip(where, needed, strict=True))
        elif places:
            assert needed == whole_bricks(hull_of(places))
        else:
            assert not elements(needed)


def _extents(array: FeatureMap) -> tuple[int, int, int]:
    return array.shape.height, array.shape.width, array.shape.depth


@settings(max_examples=few(150), deadline=None)
@given(
    st.builds(
        Kernel,
        height=st.integers(1, 3),
        width=st.integers(1, 3),
        stride_y=st.integers(1, 3),
        stride_x=st.integers(1, 3),
        dilation_y=st.integers(1, 2),
        dilation_x=st.integers(1, 2),
    ),
    st.builds(Padding, top=st.integers(0, 2), left=st.integers(0, 2)),
    st.sampled_from([Upscale.NONE, Upscale.NEAREST]),
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3)),
)
def test_a_window_of_any_kernel_needs_its_taps(kernel: Kernel, padding: Padding, upscale: Upscale, at: tuple[int, int, int, int]) -> None:
    ifm = Shape3D(9, 7, 16)
    given_operation = replace(max_pool(Shape3D(6, 6, 16), Shape3D(2, 2, 16)), kernel=kernel, padding=padding, upscale=upscale)
    operation = replace(given_operation, ifm=feature_map(ifm))
    y, height, x, width = at
    box = ((0, 1), (y, y + height), (x, x + width), (3, 5))
    needed = kernel_propagator(operation).demand(box, (1, 9, 7, 16))
    outputs = [(row, column, c) for row in range(y, y + height) for column in range(x, x + width) for c in (3, 4)]
    read = [(0, *element) for own in outputs for element in taps(operation, operation.ifm, *own)]
    if read:
        # A stripe is a hull: where windows skip elements, its ends may be ones that only padding's neighbours would read.
        assert all(a <= low and high <= b for (a, b), (low, high) in zip(needed, hull_of(read), strict=True))
        gapless = kernel.stride_y <= kernel.height and kernel.stride_x <= kernel.width
        if gapless and kernel.dilation_y == kernel.dilation_x == 1:
            assert needed == hull_of(read)


def test_weights_follow_the_output_channels() -> None:
    graph = graph_of("tiny_residual")
    part = next(part for part in graph.parts if operation_of(part).kind is OperationKind.CONV_2D and len(part.shape) == 5)
    weights = next(given_input for given_input in part.operands if given_input.tensor.endswith("/weights"))
    operation = operation_of(part)
    box = tuple((0, 1) if axis == 2 else interval for axis, interval in enumerate(part.whole))
    needed = graph.demand(weights, box)
    assert needed == ((0, 16), (0, operation.kernel.height), (0, operation.kernel.width), (0, operation.ifm.shape.depth))


# Plans on real parts.


@pytest.mark.parametrize(("first", "last"), [(1, 3), (0, 3)] if EVERY else [(1, 3)])
def test_plans_of_a_lifted_network_run_in_buffers_of_their_bytes(first: int, last: int) -> None:
    graph = graph_of("tiny_residual")
    options = StripeOptions(factors=2, stripes=64, several_axes=False, mixed=1, cull=False)
    assert not group_plans(graph, 0, 2, options), "the residual sum, part 3, needs what part 0 makes"
    plans = group_plans(graph, first, last, options)
    assert {made.group.stripes.count > 1 for made in plans} == {True, False}
    work = {made.work for made in plans if made.group.stripes.count == 1}
    assert work == {sum(prod(part.shape) * part.work for part in graph.parts[first : last + 1])}
    for made in plans:
        home = {tensor.name: set(product(*map(range, tensor.shape))) for tensor in graph.tensors}
        home.pop(graph.parts[last].output)
        run_group(graph, made, trace(graph, made.group), home)
        assert made.work >= min(work)
        assert made.work == min(work) or BufferMode.RECOMPUTE in made.group.modes.values()


def test_a_resize_whose_kernels_read_and_write_one_tensor_is_covered_by_plans() -> None:
    graph = graph_of("deeplabv3_mnv3_256_i8")
    assert any(part.output in part.inputs for part in graph.parts)
    ending = all_plans(graph, StripeOptions(group_length=1, factors=1))
    found = propose(ending, smallest_limit(ending))
    assert found is not None
    assert [plan.group.last for plan in found.plans] == list(range(len(graph.parts)))
    assert propose(ending, found.memory - 1) is None


def test_the_beginning_of_a_network_ends_with_what_the_rest_reads() -> None:
    graph = graph_of("tiny_residual")
    cut = beginning(graph, 3)
    read = {operand.tensor for part in graph.parts[3:] for operand in part.operands}
    outputs = {tensor.name for tensor in cut.tensors if tensor.kind is TensorKind.OUTPUT}
    assert outputs == {part.output for part in cut.parts} & read
    assert len(outputs) == 2, "the branch, and the skip tensor of the residual sum"
    lines = model_table("zoo:tiny_residual", 0, StripeOptions(factors=3, several_axes=False, mixed=0)).splitlines()
    work = sum(prod(part.shape) * part.work for part in graph.parts)
    assert f"{int(work):,}" in lines[-1]
