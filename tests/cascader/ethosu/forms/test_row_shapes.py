"""Elementwise kernels in another shape than their neighbours: given the neighbours' rows, they can be cut and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from cascades import expected, outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from made_schedules import make_schedule
from msgspec.structs import replace
from row_graphs import schedule_groups
from scheduling import DEFAULT, network

from cascader.allocate.moving import allocate
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.brick_tensors import NhwcForm, in_forms
from cascader.ethosu.forms.row_shapes import in_row_shapes
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.graph.cascader_graph import CascaderGraph
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group
from npu_model.accelerator import accelerator
from npu_model.program import FeatureMap, OperationKind, Strides, Tiles
from npu_model.shapes import Shape3D

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)
Shaped = Callable[[FeatureMap], FeatureMap]


@cache
def plain() -> Network:
    """A convolution, two more and the sum of what the first and the last make, 24 x 24 x 16, all stored as NHWC."""
    net = network("tiny_residual")
    tensors = {name for part in net.graph.parts for name in (*part.inputs, *part.outputs)}
    forms = {t.name: NhwcForm(24, 24, 16, 1) for t in net.graph.tensors if t.name in tensors and t.size == 24 * 24 * 16}
    bricks = {p.ofm for part in net.graph.parts if (p := ethosu_part(part)) and p.operation.ofm.layout.name == "NHCWB16"}
    return in_forms(net, {name: form for name, form in forms.items() if name in bricks})


def dense(shape: Shape3D) -> Shaped:
    """The first bytes of a tensor, element after element, in a shape."""

    def view(feature_map: FeatureMap) -> FeatureMap:
        strides = Strides(shape.width * shape.depth, shape.depth, 1)
        return replace(feature_map, shape=shape, strides=strides, tiles=Tiles.single(shape, feature_map.tiles.bases[0]))

    return view


def with_sum(net: Network, view: Shaped) -> Network:
    """The network with the operands and the result of its sum seen in another way."""
    parts = list(net.graph.parts)
    (at,) = (i for i, part in enumerate(parts) if (p := ethosu_part(part)) and p.operation.kind is OperationKind.ELEMENTWISE)
    payload = parts[at].payload
    assert isinstance(payload, EthosuPart)
    operation = payload.operation
    assert operation.ifm2 is not None
    seen = replace(operation, ifm=view(operation.ifm), ifm2=view(operation.ifm2), ofm=view(operation.ofm))
    parts[at] = replace(parts[at], payload=replace(payload, operation=seen))
    return replace(net, graph=CascaderGraph(tuple(parts), net.graph.tensors))


@pytest.mark.parametrize("shape", [Shape3D(12, 48, 16), Shape3D(48, 12, 16), Shape3D(12, 96, 8), Shape3D(1, 576, 16)], ids=str)
def test_a_sum_in_another_shape_gets_the_rows_of_the_kernels_around_it(shape: Shape3D) -> None:
    found = in_row_shapes(with_sum(plain(), dense(shape)), DEVICE)
    assert found == plain()
    assert not any(part.atomic for part in row_graph(found).parts)


def test_nothing_changes_where_all_rows_agree_or_nothing_is_dense() -> None:
    assert in_row_shapes(plain(), DEVICE) == plain()
    assert in_row_shapes(network("tiny_residual"), DEVICE) == network("tiny_residual")
    alike = with_sum(plain(), dense(Shape3D(24, 48, 8)))
    assert in_row_shapes(alike, DEVICE) == alike


def test_a_sum_of_part_of_its_tensors_keeps_its_shape() -> None:
    """The sum is of the first 23 rows: the bytes behind them are not its own."""
    part = with_sum(plain(), dense(Shape3D(23, 24, 16)))
    assert in_row_shapes(part, DEVICE) == part


@settings(max_examples=12)
@given(st.data(), st.sampled_from([Shape3D(12, 48, 16), Shape3D(24, 48, 8)]))
def test_any_cascade_of_the_reshaped_network_computes_the_same_bytes(data: st.DataObject, shape: Shape3D) -> None:
    seen = with_sum(plain(), dense(shape))
    net = in_row_shapes(seen, DEVICE)
    assert outputs(lower(schedule_layer_by_layer(seen, DEVICE.name))) == expected("tiny_residual")
    graph = row_graph(net)
    border = data.draw(st.integers(0, len(graph.parts) - 1))
    groups = [Group(0, border, data.draw(st.integers(1, 5)))]
    groups += [Group(border + 1, len(graph.parts) - 1, data.draw(st.integers(1, 5)))] if border + 1 < len(graph.parts) else []
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    stores = storages(DepthFirstScheduler(graph), jobs, groups)
    _, addresses = allocate([store.extent for store in stores], moves=0)
    made = make_schedule(net, DEFAULT, graph, jobs, Buffers.of(stores, len(jobs)), addresses)
    assert outputs(lower(made)) == expected("tiny_residual")
