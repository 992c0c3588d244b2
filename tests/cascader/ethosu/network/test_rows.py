"""Views of rows: where every row of a feature map lies, byte by byte, and cascades through all that is seen in another shape."""

from __future__ import annotations

from functools import cache

import pytest
from cascades import cascade_of, outputs
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.trimmed import trimmed
from cascader.ethosu.network.network import ARENA, Network, ethosu_part
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.windows import spans
from cascader.frontends.vela import import_network
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import Group
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.program import FeatureMap
from validation.portfolio import build

NETWORKS = (
    "pair_reshape_conv",
    "pair_transpose_conv",
    "pair_pad_pool",
    "split_rows_add",
    "concat_rows",
    "crop_rows",
    "half_pixel_resize",
    "transpose_conv_3x3",
    "flatten_fc",
    "d2s_between_pairs",
)
"""Each has one thing in its middle that its neighbours see in other rows."""

ON_THE_NPU = NETWORKS[:-1]
CASES = [pytest.param(name, id=name) for name in NETWORKS]


@cache
def network(name: str) -> Network:
    return trimmed(import_network(build(name)))


@cache
def graph(name: str) -> RowGraph:
    return row_graph(network(name))


@cache
def expected(name: str) -> dict[str, bytes]:
    return outputs(lower(schedule_layer_by_layer(network(name), DEFAULT_ACCELERATOR)))


def touched(feature_map: FeatureMap, row: int, unit: int) -> tuple[int, int]:
    """First and last (exclusive) row of the tensor in which a row of the map has a byte."""
    found = list(spans(feature_map, (row, row + 1), 0))
    return min(span.start for span in found) // unit, (max(span.end for span in found) - 1) // unit + 1


@pytest.mark.parametrize("name", CASES)
def test_every_row_that_a_kernel_writes_lies_in_the_rows_that_the_graph_says(name: str) -> None:
    for part, facts in zip(network(name).graph.parts, graph(name).parts, strict=True):
        payload = ethosu_part(part)
        if payload is None or facts.atomic:
            continue
        tensor = graph(name).tensors[facts.outputs[0]]
        for row in range(facts.rows):
            low, high = touched(payload.operation.ofm, row, tensor.row_bytes)
            first, last = facts.written(0, row, row + 1, tensor.rows)
            assert first <= low < high <= last
            step = facts.map(0)
            assert (first, last) == (low, high) or (step is not None and step.step == 0)


@pytest.mark.parametrize("name", CASES)
def test_what_a_kernel_reads_through_a_window_of_one_row_is_what_the_graph_demands(name: str) -> None:
    for part, facts in zip(network(name).graph.parts, graph(name).parts, strict=True):
        payload = ethosu_part(part)
        if payload is None or facts.atomic or payload.operation.ifm.region != ARENA:
            continue
        tensor, propagator = facts.inputs[0]
        plain = (propagator.stride, propagator.taps, propagator.pad, propagator.upscale, propagator.whole) == (1, 1, 0, 1, False)
        for row in range(facts.rows) if plain else ():
            low, high = touched(payload.operation.ifm, row, graph(name).tensors[tensor].row_bytes)
            first, last = propagator.demand(row, row + 1)
            assert first <= low < high <= last


def test_one_thing_in_another_shape_makes_nothing_around_it_whole() -> None:
    for name in NETWORKS:
        for part, facts in zip(network(name).graph.parts, graph(name).parts, strict=True):
            payload = ethosu_part(part)
            assert payload is None or facts.atomic == (payload.operation.ofm.shape.height == 1)


@pytest.mark.law
@settings(max_examples=few(60), deadline=None)
@given(st.data(), st.sampled_from(ON_THE_NPU))
def test_any_cascade_through_views_computes_the_same_bytes(data: st.DataObject, name: str) -> None:
    parts = len(graph(name).parts)
    borders = sorted(data.draw(st.sets(st.integers(0, parts - 2), max_size=2))) if parts > 1 else []
    firsts, lasts = [0, *(border + 1 for border in borders)], [*borders, parts - 1]
    groups = [
        Group(first, last, data.draw(st.integers(1, 9)), data.draw(st.sampled_from([0, 1, 4])))
        for first, last in zip(firsts, lasts, strict=True)
    ]
    assert outputs(lower(cascade_of(network(name), graph(name), groups))) == expected(name)
