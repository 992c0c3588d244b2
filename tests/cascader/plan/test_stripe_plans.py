"""Plans of stripes: the RFC's figures, plans carried out in buffers of exactly their bytes, and nothing better by brute force."""

from __future__ import annotations

import doctest
import os
from fractions import Fraction
from itertools import product

import pytest
from affine_graphs import affine_graphs, convolution, two_convolutions
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from naive_stripes import run_group
from rfc_stripes import rfc_buffer_size, tensor_stripes

import cascader.plan.stripe_plans
import cascader.plan.stripe_trace
from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.intervals import elements, whole
from cascader.graph.propagator import InputAxis, Propagator
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.proposals import frontier, propose, smallest_limit
from cascader.plan.stripe_plans import (
    StripeOptions,
    StripePlan,
    StripeRates,
    all_plans,
    group_plans,
    plan,
    stripe_configs,
)
from cascader.plan.stripe_trace import StripedGroup, trace
from examples.stripe_plans import rfc_table
from npu_model.errors import InputError

pytestmark = pytest.mark.law

RECOMPUTE, ROLLING, DOUBLE = BufferMode.RECOMPUTE, BufferMode.ROLLING, BufferMode.DOUBLE


@pytest.mark.parametrize("module", [cascader.plan.stripe_plans, cascader.plan.stripe_trace])
def test_hand_checked_examples(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried
    assert not failed


# The RFC's example.


def middle_bytes(shape: tuple[int, ...], mode: BufferMode) -> int:
    """Bytes of the tensor between the RFC's two convolutions, for stripes of the output."""
    graph = two_convolutions()
    group = StripedGroup(0, 1, StripeConfig.even((1, 24, 24, 8), shape), {"middle": mode})
    made = plan(graph, group)
    (own,) = made.buffers
    config = tensor_stripes(graph, group)["middle"][0]
    assert own.size == rfc_buffer_size(config, graph.tensor("middle"), mode)
    return own.size


@pytest.mark.parametrize(
    ("shape", "mode", "size"),
    [
        ((1, 24, 24, 8), ROLLING, 18432),
        ((1, 6, 6, 8), RECOMPUTE, 1152),
        ((1, 6, 24, 8), RECOMPUTE, 4608),
        ((1, 6, 24, 8), ROLLING, 4608),
        ((1, 1, 24, 8), ROLLING, 768),
    ],
)
def test_two_convolutions_of_the_rfc(shape: tuple[int, ...], mode: BufferMode, size: int) -> None:
    assert middle_bytes(shape, mode) == size


@pytest.mark.parametrize(("factors", "rows"), [(1, {24}), (2, {24, 1}), (3, {24, 12, 1}), (4, {24, 12, 6, 1})])
def test_stripes_of_an_axis_are_the_whole_its_halves_of_halves_and_the_least(factors: int, rows: set[int]) -> None:
    configs = stripe_configs(two_convolutions(), 0, 1, StripeOptions(factors=factors, several_axes=False))
    assert {config.shape[1] for config in configs} == rows
    assert configs[0].shape == (1, 24, 24, 8)


def test_sixteen_stripes_of_1_6_6_32_are_asked_of_the_first_convolution() -> None:
    graph = two_convolutions()
    group = StripedGroup(0, 1, StripeConfig.even((1, 24, 24, 8), (1, 6, 6, 8)), {"middle": RECOMPUTE})
    (middle,), (first,) = tensor_stripes(graph, group)["middle"], tensor_stripes(graph, group)["in"]
    assert (middle.shape, middle.count) == ((1, 6, 6, 32), 16)
    assert (first.shape, first.strides) == ((1, 8, 8, 3), (1, 6, 6, 0))
    traced = trace(graph, group)
    assert [elements(box) for box in traced.needed["in"]] == [8 * 8 * 3] * 16
    assert plan(graph, group).work == 24 * 24 * 32 * 27 + 24 * 24 * 8 * 32


def chain(*propagators: Propagator, shapes: tuple[tuple[int, int, int], ...]) -> CascaderGraph:
    """Parts one after the other, of work 1."""
    kinds = [TensorKind.INPUT, *[TensorKind.INTERMEDIATE] * (len(propagators) - 1), TensorKind.OUTPUT]
    tensors = tuple(Tensor.dense(f"t{i}", kind, shape) for i, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)))
    parts = tuple(Part.striped(f"p{i}", (Operand(f"t{i}", p),), f"t{i + 1}", shapes[i + 1]) for i, p in enumerate(propagators))
    return CascaderGraph(parts, tensors)


SAME = convolution(4, pad=1)
PAIR = chain(SAME, SAME, shapes=((16, 16, 4),) * 3)
"""Two 3 x 3 convolutions of 16 x 16 x 4, with padding."""


@pytest.mark.parametrize("mode", [RECOMPUTE, ROLLING])
def test_buffers_are_never_larger_than_the_rfcs_and_smaller_where_it_counts_padding(mode: BufferMode) -> None:
    ours, theirs = [], []
    for config in stripe_configs(PAIR, 0, 1, StripeOptions(factors=4, stripes=256)):
        group = StripedGroup(0, 1, config, {"t1": mode})
        (asked,) = tensor_stripes(PAIR, group)["t1"]
        # Output channels, axis 2, are no loop of the tensor between; where they are the outermost one the RFC is wrong.
        if mode is RECOMPUTE or config.order[2] != 1:
            ours.append(plan(PAIR, group).buffers[0].size)
            theirs.append(rfc_buffer_size(asked, PAIR.tensor("t1"), mode))
    assert len(ours) > 30
    assert all(a <= b for a, b in zip(ours, theirs, strict=True))
    assert any(a < b for a, b in zip(ours, theirs, strict=True))


def test_the_rfcs_rolling_buffer_is_too_small_where_the_outermost_loop_comes_back_to_the_tensor() -> None:
    """Each turn of the output's channels needs every row again, which a buffer of a few rows has lost."""
    group = StripedGroup(0, 1, StripeConfig.even((16, 16, 4), (4, 16, 2), (2, 0, 1)), {"t1": ROLLING})
    made = plan(PAIR, group)
    (asked,), (buffer,) = tensor_stripes(PAIR, group)["t1"], made.buffers
    assert (rfc_buffer_size(asked, PAIR.tensor("t1"), ROLLING), buffer.size) == (6 * 16 * 4, 16 * 16 * 4)
    rfcs = replace(made, buffers=(replace(buffer, shape=(6, 16, 4), axis=0),))
    home = {tensor.name: _exists(PAIR, tensor, 0) for tensor in PAIR.tensors}
    with pytest.raises(AssertionError):
        run_group(PAIR, rfcs, trace(PAIR, group), home)
    assert run_group(PAIR, made, trace(PAIR, group), home) == made.work


def test_recompute_makes_the_halo_again_and_rolling_does_not() -> None:
    stripes = StripeConfig.even((16, 16, 4), (4, 16, 4))
    again, once = (plan(PAIR, StripedGroup(0, 1, stripes, {"t1": mode})) for mode in (RECOMPUTE, ROLLING))
    assert once.work == 2 * 16 * 16 * 4
    assert again.work == once.work + 6 * 16 * 4
    assert again.buffers[0].size == once.buffers[0].size == 6 * 16 * 4
    assert again.memory == once.memory == 2 * 16 * 16 * 4 + 6 * 16 * 4


def test_tiles_need_less_than_rows_and_recompute_more() -> None:
    tiles = plan(PAIR, StripedGroup(0, 1, StripeConfig.even((16, 16, 4), (4, 4, 4)), {"t1": RECOMPUTE}))
    assert tiles.buffers[0].shape == (6, 6, 4)
    assert tiles.work == 16 * 16 * 4 + (5 + 6 + 6 + 5) ** 2 * 4


def test_rolling_tiles_keep_whole_rows_of_the_outermost_axis() -> None:
    for order, shape, axis in (((1, 2, 0), (6, 16, 4), 0), ((2, 1, 0), (16, 6, 4), 1)):
        made = plan(PAIR, StripedGroup(0, 1, StripeConfig.even((16, 16, 4), (4, 4, 4), order), {"t1": ROLLING}))
        assert (made.buffers[0].shape, made.buffers[0].axis) == (shape, axis)
        assert made.work == 2 * 16 * 16 * 4


def test_channel_stripes_of_a_convolution_do_not_make_its_input_again() -> None:
    made = plan(PAIR, StripedGroup(0, 1, StripeConfig.even((16, 16, 4), (4, 16, 2), (1, 0, 2)), {"t1": RECOMPUTE}))
    assert made.work == 2 * 16 * 16 * 4 + 6 * 16 * 4
    outermost = plan(PAIR, StripedGroup(0, 1, StripeConfig.even((16, 16, 4), (4, 16, 2), (2, 0, 1)), {"t1": RECOMPUTE}))
    assert outermost.work == 16 * 16 * 4 + 2 * (16 + 6) * 16 * 4


def test_double_buffers_are_twice_a_stripe_and_copy_beside_the_work() -> None:
    graph = chain(SAME, shapes=((16, 16, 4),) * 2)
    stripes, rates = StripeConfig.even((16, 16, 4), (4, 16, 4)), StripeRates(1, 1)

    def of(given: BufferMode, made: BufferMode) -> StripePlan:
        return plan(graph, StripedGroup(0, 0, stripes, {"t0": given, "t1": made}, frozenset({"t0", "t1"})), rates)

    row = 16 * 4
    single, double, rolling = of(RECOMPUTE, RECOMPUTE), of(DOUBLE, DOUBLE), of(ROLLING, RECOMPUTE)
    assert single.memory == (6 + 4) * row
    assert double.memory == 2 * single.memory
    assert single.cycles == (22 + 16 + 16) * row
    # Copies of 5, 6, 6, 5 rows in and 4 out each beside 4 rows of work each: in 5, then 6, 6 + 4, 5 + 4, 4, and 4 out.
    assert double.cycles == (5 + 6 + 10 + 9 + 4 + 4) * row
    assert rolling.cycles == (16 + 16 + 16) * row
    assert rolling.memory == single.memory


def test_weights_are_copied_slice_by_slice_and_once_where_channels_are_the_outermost_loop() -> None:
    """A constant is copied as an input is: slices of output channels, once each, or again for every row stripe."""
    weights = Tensor.dense("weights", TensorKind.CONSTANT, (4, 9))
    filters = Propagator.of_axes((InputAxis(2), InputAxis(None, 0, 9)), 3)
    tensors = (Tensor.dense("in", TensorKind.INPUT, (16, 16, 4)), Tensor.dense("out", TensorKind.OUTPUT, (16, 16, 4)), weights)
    part = Part.striped("p", (Operand("in", SAME), Operand("weights", filters)), "out", (16, 16, 4), work=9)
    graph = CascaderGraph((part,), tensors)
    in_place = 2 * 16 * 16 * 4
    for order, copied in (((2, 0, 1), 4 * 9), ((1, 0, 2), 4 * 4 * 9)):
        for mode, room in ((RECOMPUTE, 9), (DOUBLE, 2 * 9)):
            stripes = StripeConfig.even((16, 16, 4), (4, 16, 1), order)
            group = StripedGroup(0, 0, stripes, {"weights": mode}, frozenset({"weights"}))
            made = plan(graph, group)
            assert sum(elements(box) for box in trace(graph, group).filled["weights"]) == copied
            assert made.memory == in_place + room
            # A double buffer hides all copies but the first beside the work, of which there is more.
            assert made.cycles == 16 * 16 * 4 * 9 + (9 if mode is DOUBLE else copied)
    assert "weights" not in trace(graph, StripedGroup(0, 0, StripeConfig.even((16, 16, 4), (4, 16, 4)), {})).needed


# Carried out.

OPTIONS = StripeOptions(group_length=5, factors=4, cull=False)


def first_and_last(graph: CascaderGraph, draw: st.DataObject) -> tuple[int, int]:
    first = draw.draw(st.integers(0, len(graph.parts) - 1))
    return first, draw.draw(st.integers(first, len(graph.parts) - 1))


@settings(max_examples=300 if "NPU_TESTBED_ALL" in os.environ else 60, deadline=None)
@given(affine_graphs(), st.data())
def test_a_plan_runs_in_buffers_of_its_bytes_and_does_its_work(graph: CascaderGraph, data: st.DataObject) -> None:
    names = [tensor.name for tensor in graph.tensors]
    external = frozenset(data.draw(st.lists(st.sampled_from(names), max_size=3)))
    first, last = first_and_last(graph, data)
    options = replace(
        OPTIONS, external=external, factors=3, stripes=20, mixed=data.draw(st.integers(0, 2)), orders=data.draw(st.booleans())
    )
    plans = group_plans(graph, first, last, options)
    assume(plans)
    for made in data.draw(st.lists(st.sampled_from(plans), min_size=1, max_size=4)):
        home = {tensor.name: _exists(graph, tensor, first) for tensor in graph.tensors}
        work = run_group(graph, made, trace(graph, made.group), home)
        assert work == made.work
        assert made.work >= _once(graph, made)
        if all(mode is not RECOMPUTE for name, mode in made.group.modes.items() if name not in external):
            assert made.cycles >= made.work


def _exists(graph: CascaderGraph, tensor: Tensor, first: int) -> set[tuple[int, ...]]:
    """Elements that exist before part ``first``."""
    if tensor.kind is TensorKind.INPUT:
        return set(product(*(range(low, high) for low, high in whole(tensor.shape))))
    made: set[tuple[int, ...]] = set()
    for index in graph.writers(tensor.name):
        if index < first:
            part = graph.parts[index]
            made.update(product(*(range(low, high) for low, high in part.written(part.whole))))
    return made


def _once(graph: CascaderGraph, made: StripePlan) -> Fraction:
    """Work if every element that is ever made were made once."""
    total = Fraction(0)
    for index, boxes in trace(graph, made.group).made.items():
        once = {element for box in boxes for element in product(*(range(low, high) for low, high in box))}
        total += len(once) * Fraction(graph.parts[index].work)
    return total


@settings(max_examples=100, deadline=None)
@given(affine_graphs(), st.data())
def test_rolling_makes_each_element_once_where_stripes_are_rows(graph: CascaderGraph, data: st.DataObject) -> None:
    first, last = first_and_last(graph, data)
    plans = group_plans(graph, first, last, replace(OPTIONS, several_axes=False, recompute=False))
    assume(plans)
    for made in plans:
        if made.group.stripes.stripes[1] == made.group.stripes.stripes[2] == 1 and all(set(part.align) == {1} for part in graph.parts):
            assert made.work == _once(graph, made)


@settings(max_examples=100, deadline=None)
@given(affine_graphs(), st.data())
def test_a_rolling_buffer_has_no_row_to_spare(graph: CascaderGraph, data: st.DataObject) -> None:
    first, last = first_and_last(graph, data)
    plans = group_plans(graph, first, last, replace(OPTIONS, several_axes=False, recompute=False, factors=3))
    assume(plans)
    made = data.draw(st.sampled_from(plans))
    for number, buffer in enumerate(made.buffers):
        assert buffer.axis is not None
        if buffer.shape[buffer.axis] == 1:
            continue
        shape = tuple(length - 1 if axis == buffer.axis else length for axis, length in enumerate(buffer.shape))
        tight = replace(made, buffers=(*made.buffers[:number], replace(buffer, shape=shape), *made.buffers[number + 1 :]))
        home = {tensor.name: _exists(graph, tensor, first) for tensor in graph.tensors}
        if _aligned(graph) and len(graph.readers(buffer.tensor)) == 1:
            with pytest.raises(AssertionError):
                run_group(graph, tight, trace(graph, tight.group), home)


def _aligned(graph: CascaderGraph) -> bool:
    return all(set(part.align) == {1} for part in graph.parts)


# Brute force.


def covers(count: int) -> list[list[tuple[int, int]]]:
    """All ways to part 0 to count - 1 into groups of consecutive parts."""
    if count == 0:
        return [[]]
    return [[*before, (first, count - 1)] for first in range(count) for before in covers(first)]


@settings(max_examples=40, deadline=None)
@given(
    affine_graphs(max_parts=4, max_size=4),
    st.sampled_from([(True, True), (True, False), (False, True)]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_brute_force_finds_nothing_better(graph: CascaderGraph, modes: tuple[bool, bool], switches: tuple[bool, bool, bool]) -> None:
    several, orders, keep = switches
    options = StripeOptions(5, 3, 64, several_axes=several, orders=orders, recompute=modes[0], rolling=modes[1], keep=keep, cull=False)
    found = frontier(all_plans(graph, replace(options, cull=True)))
    points: set[tuple[int, int]] = set()
    for cover in covers(len(graph.parts)):
        choices = [{(made.memory, made.cycles) for made in group_plans(graph, first, last, options)} for first, last in cover]
        totals = {(0, 0)}
        for choice in choices:
            totals = {(max(m, memory), c + cycles) for m, c in totals for memory, cycles in choice}
        points |= totals
    best = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert {(proposal.memory, proposal.cycles) for proposal in found} == best
    for proposal in found:
        assert proposal.memory == max(made.memory for made in proposal.plans)
        assert [made.group.first for made in proposal.plans] == [0, *(made.group.last + 1 for made in proposal.plans[:-1])]


@settings(max_examples=8, deadline=None)
@given(affine_graphs(max_parts=3, max_size=4))
def test_every_switch_that_is_turned_on_helps_or_changes_nothing(graph: CascaderGraph) -> None:
    most = StripeOptions(factors=3, keep=True)
    everything = frontier(all_plans(graph, most))
    for less in (
        {"several_axes": False},
        {"keep": False},
        {"orders": False},
        {"recompute": False},
        {"rolling": False},
        {"mixed": 0},
        {"group_length": 1},
        {"factors": 1},
        {"stripes": 2},
    ):
        for point in frontier(all_plans(graph, replace(most, **less))):
            assert any(own.memory <= point.memory and own.cycles <= point.cycles for own in everything)


# What is asked for.


def test_the_best_plan_of_the_two_convolutions_makes_nothing_twice() -> None:
    (best,) = frontier(all_plans(two_convolutions(), StripeOptions()))
    assert best.memory == 26 * 26 * 3 + 24 * 24 * 8 + 12 * 32
    assert best.cycles == 24 * 24 * (32 * 27 + 8 * 32)


def test_the_fastest_proposal_within_a_limit_or_the_smallest_that_there_is() -> None:
    graph = chain(convolution(1, pad=1), convolution(4, pad=1), shapes=((16, 16, 1), (16, 16, 4), (16, 16, 1)))
    options = StripeOptions(rolling=False)
    found = frontier(all_plans(graph, options))
    assert len(found) > 2
    assert [(point.memory, -point.cycles) for point in found] == sorted((point.memory, -point.cycles) for point in found)
    assert propose(all_plans(graph, options), found[1].memory) == found[1]
    assert propose(all_plans(graph, options), found[1].memory - 1) == found[0]
    assert smallest_limit(all_plans(graph, options)) == found[0].memory
    assert propose(all_plans(graph, options), found[0].memory - 1) is None


def test_options_that_leave_nothing_are_named() -> None:
    with pytest.raises(InputError, match="Neither recompute nor rolling is allowed"):
        StripeOptions(recompute=False, rolling=False)
    with pytest.raises(InputError, match="factors 0 and stripes 64: each must be 1 or more"):
        StripeOptions(factors=0)


def test_the_example_prints_the_rfcs_figures() -> None:
    lines = [line.split("  ") for line in rfc_table().splitlines()[2:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    found = {(stripe, mode): (count, between) for stripe, count, mode, between, *_ in cells}
    assert found["(1, 6, 6, 8)", "recompute"] == ("16", "1,152")
    assert found["(1, 6, 24, 8)", "rolling"] == ("4", "4,608")
    assert found["(1, 1, 24, 8)", "rolling"] == ("24", "768")
    assert found["(1, 24, 24, 8)", "rolling"] == ("1", "18,432")
