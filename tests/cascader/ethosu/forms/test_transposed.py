"""Transposed kernels: height and width change places, the bytes stay the same, and odd widths no longer waste MACs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from cascades import cascade_of, outputs
from few_examples import few
from form_variants import variants
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import DEFAULT, network

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.columns import column_counts
from cascader.ethosu.forms.transposed import transposed, transposed_in_place, with_transposed
from cascader.ethosu.job.constants import StreamEditor
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
from npu_model.program import FeatureMap
from npu_model.weight_stream.weights import weights_from_stream
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)
SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
STAGED = Sources.staged(SYSTEM)


@cache
def narrow() -> Network:
    """26 x 9 pixels, five columns after a stride of 2: windows of all sides, a residual sum, a concatenation at 24 channels."""
    net = NetworkBuilder("narrow")
    x = net.conv2d(net.input((1, 26, 9, 3), "image"), 32, (5, 3), strides=(2, 2), activation="RELU", name="stem")
    y = net.depthwise(x, (3, 3), activation="RELU6", name="depthwise")
    y = net.conv2d(y, 32, (1, 1), name="pointwise")
    x = net.add(x, y, name="sum")
    left = net.conv2d(x, 24, (1, 1), activation="RELU6", name="left")
    right = net.conv2d(x, 16, (4, 1), dilation=(2, 1), activation="RELU6", name="right")
    x = net.max_pool(net.concat([left, right]), (3, 2), strides=(1, 1), padding="SAME", name="pool")
    x = net.conv2d(x, 48, (3, 3), name="wide")
    x = net.average_pool(x, (13, 5), name="mean")
    return import_network(net.finish([net.fully_connected(net.reshape(x, (1, 48)), 10, name="scores")]), DEFAULT)


def kernels(net: Network) -> dict[str, EthosuPart]:
    return {part.name: payload for part in net.graph.parts if (payload := ethosu_part(part)) is not None}


def maps(payload: EthosuPart) -> list[FeatureMap]:
    found = (payload.operation.ifm, payload.operation.ifm2, payload.operation.ofm)
    return [feature_map for feature_map in found if feature_map is not None and feature_map.region == ARENA]


@cache
def made(form: Callable[..., Network]) -> Network:
    return form(narrow(), DEVICE, STAGED)


FORMS = pytest.mark.parametrize("form", [transposed, transposed_in_place], ids=lambda form: form.__name__)


@FORMS
def test_every_kernel_has_its_axes_exchanged_and_the_network_computes_the_same_bytes(form: Callable[..., Network]) -> None:
    exchanged = 0
    for before, after in zip(kernels(narrow()).values(), kernels(made(form)).values(), strict=True):
        old, new = before.operation, after.operation
        if old.ofm.shape.height != old.ofm.shape.width:
            assert (new.ofm.shape.height, new.ofm.shape.width) == (old.ofm.shape.width, old.ofm.shape.height)
            assert (new.kernel.height, new.kernel.width) == (old.kernel.width, old.kernel.height)
            assert (new.padding.top, new.padding.left) == (old.padding.left, old.padding.top)
            exchanged += 1
    assert exchanged >= 8
    schedule = schedule_layer_by_layer(made(form), DEFAULT)
    check_schedule(schedule)
    assert outputs(lower(schedule)) == outputs(lower(schedule_layer_by_layer(narrow(), DEFAULT)))


@FORMS
def test_the_windows_of_weights_are_turned_too(form: Callable[..., Network]) -> None:
    streams = StreamEditor(narrow().constants), StreamEditor(made(form).constants)
    for pair in zip(kernels(narrow()).values(), kernels(made(form)).values(), strict=True):
        if pair[0].operation.weights:
            old, new = (
                np.asarray(weights_from_stream(one.operation, stream.read(one.operation.weights[0]), DEVICE))
                for one, stream in zip(pair, streams, strict=True)
            )
            assert (old.swapaxes(1, 2) == new).all()


def addresses(feature_map: FeatureMap, *, exchanged: bool) -> list[int]:
    """Addresses of all elements, by height, width and channel of the map as it was before its axes were exchanged."""
    shape = feature_map.shape
    height, width = (shape.width, shape.height) if exchanged else (shape.height, shape.width)
    return [
        feature_map.address(*((x, y) if exchanged else (y, x)), c) for y, x, c in product(range(height), range(width), range(shape.depth))
    ]


def test_in_place_every_element_of_an_nhwc_tensor_keeps_its_address_and_turned_tensors_hold_each_element_once() -> None:
    seen = 0
    for before, place, turn in zip(
        *(kernels(net).values() for net in (narrow(), made(transposed_in_place), made(transposed))), strict=True
    ):
        for old, kept, new in zip(*(maps(one) for one in (before, place, turn)), strict=True):
            if old.layout is kept.layout and old.shape != kept.shape:
                assert addresses(old, exchanged=False) == addresses(kept, exchanged=True)
                seen += 1
            assert len(set(addresses(new, exchanged=False))) == new.shape.elements
    assert seen


def test_all_accesses_to_a_turned_tensor_agree_on_where_its_elements_are() -> None:
    """A tensor between kernels has one layout and the same strides for the kernel that writes it and for all that read it."""
    net = made(transposed)
    found: dict[str, set[tuple[object, ...]]] = {}
    for payload in kernels(net).values():
        operation = payload.operation
        for name, one in ((payload.ifm, operation.ifm), (payload.ofm, operation.ofm)):
            found.setdefault(name, set()).add((one.layout, one.strides))
    assert all(len(views) == 1 for name, views in found.items() if net.graph.tensor(name).kind.name == "INTERMEDIATE")


@settings(max_examples=few(25))
@given(st.data(), st.sampled_from([transposed, transposed_in_place]))
def test_any_cascade_of_the_turned_network_computes_the_same_bytes(data: st.DataObject, form: Callable[..., Network]) -> None:
    net = made(form)
    graph = row_graph(net)
    cuts = data.draw(st.sets(st.integers(1, len(graph.parts) - 1)))
    bounds = [0, *sorted(cuts), len(graph.parts)]
    groups = [Group(a, b - 1, data.draw(st.integers(1, 6))) for a, b in pairwise(bounds)]
    schedule = cascade_of(net, graph, groups)
    check_schedule(schedule)
    assert outputs(lower(schedule)) == outputs(lower(schedule_layer_by_layer(narrow(), DEFAULT)))


@settings(max_examples=few(25))
@given(st.sets(st.sampled_from(sorted(kernels(narrow())))))
def test_whichever_kernels_are_turned_the_network_computes_the_same_bytes(names: set[str]) -> None:
    """Tensors between one that is and one that is not lie in NHWC, where both find them."""
    schedule = schedule_layer_by_layer(with_transposed(narrow(), names, DEVICE, STAGED), DEFAULT)
    check_schedule(schedule)
    assert outputs(lower(schedule)) == outputs(lower(schedule_layer_by_layer(narrow(), DEFAULT)))


def test_in_place_the_rows_of_the_tensors_stay_and_stripes_follow_them() -> None:
    before, after = row_graph(narrow()), row_graph(made(transposed_in_place))
    assert [tensor.rows for tensor in before.tensors] == [tensor.rows for tensor in after.tensors]
    assert [part.rows for part in before.parts] == [part.rows for part in after.parts]
    assert {payload.axis for payload in kernels(made(transposed_in_place)).values()} == {Axis.COLUMNS}
    assert column_counts(made(transposed_in_place)) == ()


def test_turned_tensors_have_their_columns_as_rows_and_an_image_whose_rows_lie_apart_is_not_cut() -> None:
    before, after = row_graph(narrow()), row_graph(made(transposed))
    rows = {one.name: (one.rows, other.rows) for one, other in zip(before.tensors, after.tensors, strict=True)}
    assert (13, 5) in rows.values()
    (image,) = (port.tensor for port in narrow().inputs)
    assert rows[image] == (26, 1)


def fastest(options: CascadeOptions) -> int:
    """Replayed cycles of the best schedule in an arena with room for everything."""
    found = [
        cascader.schedule(draft)
        for cascader in (Cascader(form, DEFAULT, SYSTEM, options) for form in variants(narrow(), DEFAULT, SYSTEM, options))
        for draft in cascader.drafts_at(schedule_layer_by_layer(narrow(), DEFAULT).arena_size * 2)
    ]
    return min(quick_cycles(lower(schedule), SYSTEM) for schedule in found)


def test_turning_pays_for_odd_widths_and_leaves_a_network_of_even_ones_alone() -> None:
    """Measured: 35,042 cycles and 35,275."""
    assert fastest(CascadeOptions()) < fastest(CascadeOptions(turn=False))
    for name in ("tiny_residual", "tiny_conv"):
        assert transposed(network(name), DEVICE, STAGED) is network(name)


def test_variants_turn_a_network_only_if_they_may() -> None:
    def heights(options: CascadeOptions) -> set[int]:
        forms = variants(narrow(), DEFAULT, SYSTEM, options)
        return {payload.operation.ofm.shape.height for form in forms for payload in kernels(form).values()}

    assert 5 in heights(CascadeOptions())
    assert 5 not in heights(CascadeOptions(turn=False))
