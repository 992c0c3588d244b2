"""Tensors of a group of stripes that are kept, needed outside it, read in part, or read by nobody."""

from __future__ import annotations

import pytest
from affine_graphs import convolution
from msgspec.structs import replace

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.proposals import frontier
from cascader.plan.stripe_plans import StripeOptions, all_plans, group_plans, plan
from cascader.plan.stripe_trace import StripedGroup
from npu_model.errors import InputError

pytestmark = pytest.mark.law

RECOMPUTE, ROLLING = BufferMode.RECOMPUTE, BufferMode.ROLLING


def test_what_is_needed_outside_ends_its_group() -> None:
    tensors = (
        Tensor.dense("a", TensorKind.INPUT, (4,)),
        Tensor.dense("b", TensorKind.OUTPUT, (4,)),
        Tensor.dense("c", TensorKind.OUTPUT, (4,)),
    )
    same = Propagator.identity(1)
    graph = CascaderGraph(
        (Part.striped("p", (Operand("a", same),), "b", (4,)), Part.striped("q", (Operand("b", same),), "c", (4,))), tensors
    )
    with pytest.raises(InputError, match="'b' is made by parts 0 to 1 and needed elsewhere: let the group end with it"):
        plan(graph, StripedGroup(0, 1, StripeConfig.even((4,), (2,)), {}))
    assert [len(point.plans) for point in frontier(all_plans(graph, StripeOptions()))] == [2]
    with pytest.raises(InputError, match="'b' is inside parts 0 to 1 and external"):
        plan(graph, StripedGroup(0, 1, StripeConfig.even((4,), (2,)), {}, frozenset("b"), frozenset("b")))
    kept = plan(graph, StripedGroup(0, 1, StripeConfig.even((4,), (2,)), {}, kept=frozenset("b")))
    assert (kept.memory, kept.buffers, kept.work) == (12, (), 8)


def test_a_skip_tensor_that_is_kept_whole_leaves_its_group_together() -> None:
    """A wide tensor with two readers rolls, though one of them makes a skip tensor that is needed later too."""
    shape = (8, 8, 4)
    names = ("in", "wide", "skip", "back", "out")
    kinds = [TensorKind.INPUT, *[TensorKind.INTERMEDIATE] * 3, TensorKind.OUTPUT]
    shapes = [shape, (8, 8, 16), shape, shape, shape]
    tensors = tuple(Tensor.dense(*facts) for facts in zip(names, kinds, shapes, strict=True))
    same = Propagator.identity(3)

    def part(name: str, output: str, *inputs: tuple[str, Propagator]) -> Part:
        return Part.striped(name, tuple(Operand(*given) for given in inputs), output, shapes[names.index(output)])

    parts = (
        part("a", "wide", ("in", convolution(4, pad=1))),
        part("b", "skip", ("wide", convolution(16, pad=1))),
        part("c", "back", ("wide", convolution(16, pad=1)), ("skip", same)),
        part("d", "out", ("skip", same), ("back", same)),
    )
    graph = CascaderGraph(parts, tensors)
    group = StripedGroup(0, 2, StripeConfig.even(shape, (2, 8, 4)), {"wide": ROLLING}, kept=frozenset({"skip"}))
    made = plan(graph, group)
    assert made.work == (16 + 4 + 4) * 64
    assert made.memory == 3 * 8 * 8 * 4 + 4 * 8 * 16
    limited = StripeOptions(group_length=3, factors=3, several_axes=False)
    with_it, without = (frontier(all_plans(graph, replace(limited, keep=keep)))[0].memory for keep in (True, False))
    rolling, whole_wide = 3 * 8 * 8 * 4 + 3 * 8 * 16, 8 * 8 * 16 + 8 * 8 * 4 + 2 * 8 * 4
    assert (with_it, without) == (rolling, whole_wide)


def test_a_kept_tensor_must_be_made_whole() -> None:
    tensors = tuple(
        Tensor.dense(name, kind, shape)
        for name, kind, shape in (
            ("in", TensorKind.INPUT, (4,)),
            ("kept", TensorKind.OUTPUT, (4,)),
            ("part", TensorKind.OUTPUT, (2,)),
        )
    )
    graph = CascaderGraph(
        (
            Part.striped("p", (Operand("in", Propagator.identity(1)),), "kept", (4,)),
            Part.striped("q", (Operand("kept", Propagator.identity(1)),), "part", (2,)),
        ),
        tensors,
    )
    with pytest.raises(InputError, match="Part 'p' is not asked for all of tensor 'kept', which is kept"):
        plan(graph, StripedGroup(0, 1, StripeConfig.even((2,), (1,)), {}, kept=frozenset({"kept"})))
    assert not group_plans(graph, 0, 1, StripeOptions(keep=True))


def test_a_tensor_that_nobody_keeps_is_made_as_far_as_it_is_read() -> None:
    """The second part reads rows 0 and 1 of four: the others are never made."""
    tensors = (
        Tensor.dense("in", TensorKind.INPUT, (4,)),
        Tensor.dense("middle", TensorKind.INTERMEDIATE, (4,)),
        Tensor.dense("out", TensorKind.OUTPUT, (2,)),
    )
    parts = (
        Part.striped("p", (Operand("in", Propagator.identity(1)),), "middle", (4,), work=3),
        Part.striped("q", (Operand("middle", Propagator.identity(1)),), "out", (2,)),
    )
    made = plan(CascaderGraph(parts, tensors), StripedGroup(0, 1, StripeConfig.even((2,), (1,)), {"middle": RECOMPUTE}))
    assert made.work == 2 * 3 + 2


@pytest.mark.parametrize(("first", "held"), [(0, 4 + 4 + 5), (1, 4 + 4)])
def test_an_input_that_nobody_reads_is_held_until_the_first_group_has_run(first: int, held: int) -> None:
    tensors = (
        Tensor.dense("in", TensorKind.INPUT, (4,)),
        Tensor.dense("middle", TensorKind.INTERMEDIATE, (4,)),
        Tensor.dense("out", TensorKind.OUTPUT, (4,)),
        Tensor.dense("unread", TensorKind.INPUT, (5,)),
    )
    parts = (
        Part.striped("p", (Operand("in", Propagator.identity(1)),), "middle", (4,)),
        Part.striped("q", (Operand("middle", Propagator.identity(1)),), "out", (4,)),
    )
    made = plan(CascaderGraph(parts, tensors), StripedGroup(first, first, StripeConfig.even((4,), (4,)), {}))
    assert made.memory == held
