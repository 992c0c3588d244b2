from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rfc_stripes import is_whole, propagated

import cascader.graph.intervals
import cascader.graph.propagator
import cascader.graph.stripe_config
from cascader.graph.intervals import Box, clip, elements, is_empty, lengths, whole
from cascader.graph.propagator import InputAxis, Propagator, upscaled, window
from cascader.graph.stripe_config import StripeConfig
from npu_model.errors import InputError

pytestmark = pytest.mark.law

CONV_3X3 = Propagator(((1, 0, 0, 0, 0), (0, 1, 0, 0, 2), (0, 0, 1, 0, 2), (0, 0, 0, 0, 8), (0, 0, 0, 0, 1)), (0, -1, -1, 0))
"""The RFC's example: 3 x 3, stride 1, 8 input channels; here with a padding of 1."""

TO_BRICKS = Propagator(
    ((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 0, Fraction(1, 16), 0), (0, 0, 1, 0, 0), (0, 0, 0, 0, 16), (0, 0, 0, 0, 1)), (0,) * 5
)


@pytest.mark.parametrize("module", [cascader.graph.intervals, cascader.graph.stripe_config, cascader.graph.propagator])
def test_hand_checked_examples(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried
    assert not failed


# The RFC's and its first implementation's figures.


def test_a_stripe_of_1_3_3_4_needs_one_of_1_5_5_8() -> None:
    config = StripeConfig.even((1, 24, 24, 32), (1, 3, 3, 4))
    needed = propagated(CONV_3X3, config)
    assert needed.shape == (1, 5, 5, 8)
    assert needed.extent == (1, 26, 26, 8)
    assert needed.strides == (1, 3, 3, 0)
    assert needed.stripes == (1, 8, 8, 1)
    assert needed.order == (1, 2, 3, 0)
    assert needed.offset == (0, -1, -1, 0)


def test_bricks_of_stripes() -> None:
    config = StripeConfig((1, 12, 14, 36), (1, 24, 18, 72), (1, 12, 14, 36), (1, 2, 3, 4), (1, 2, 2, 2), (0, 0, 0, 0))
    bricks = propagated(TO_BRICKS, config)
    assert bricks.shape == (1, 12, 3, 14, 16)
    assert bricks.extent == (1, 24, 5, 18, 16)
    assert bricks.strides == (1, 12, Fraction(9, 4), 14, 0)
    assert bricks.order == (1, 2, 4, 3, 0)
    assert bricks.stripes == (1, 2, 2, 2, 1)


def test_a_strided_window_of_stripes() -> None:
    matrix = Propagator(((2, 0, 0, 4), (0, 1, 0, 2), (0, 0, 0, 8), (0, 0, 0, 1)), (-2, -1, 0))
    needed = propagated(matrix, StripeConfig((4, 6, 32), (48, 60, 64), (4, 6, 32), (1, 2, 3), (12, 10, 2), (0, 0, 0)))
    assert (needed.shape, needed.extent) == ((12, 8, 8), (100, 62, 8))
    assert (needed.strides, needed.order, needed.stripes) == ((8, 6, 0), (1, 2, 0), (12, 10, 1))


Pair = tuple[int, int]

STRIPE_COUNTS = [
    (((3, 3), (10, 10), (2, 2), (5, 5), (0, 0)), {(3, 3): 16, (2, 3): 4, (3, 2): 4, (2, 2): 1}),
    (((5, 5), (8, 8), (5, 5), (2, 2), (-1, -2)), {(4, 3): 2, (4, 5): 2}),
    (
        ((13, 7), (128, 73), (13, 7), (11, 12), (-10, -5)),
        {(3, 1): 1, (3, 2): 1, (8, 7): 10, (8, 2): 1, (13, 7): 90, (13, 1): 9, (8, 1): 1, (3, 7): 10, (13, 2): 9},
    ),
]


@pytest.mark.parametrize(("given", "counts"), STRIPE_COUNTS)
def test_stripes_are_counted_after_clipping(given: tuple[Pair, ...], counts: dict[Pair, int]) -> None:
    shape, extent, strides, stripes, offset = given
    boxes = StripeConfig(shape, extent, strides, (1, 2), stripes, offset).boxes()
    assert Counter(lengths(box) for box in boxes if not is_empty(box)) == counts


# Laws.


@st.composite
def axes(draw: st.DrawFn, outputs: int) -> InputAxis:
    """A constant axis, a window, or a window behind an upscaling."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return InputAxis(None, 0, draw(st.integers(1, 5)), 0)
    made = window(
        draw(st.integers(0, outputs - 1)),
        taps=draw(st.integers(1, 3)),
        stride=draw(st.integers(1, 3)),
        dilation=draw(st.integers(1, 2)),
        pad=draw(st.integers(-2, 2)),
    )
    return upscaled(made, draw(st.integers(2, 3))) if kind == 1 else made


@st.composite
def propagators(draw: st.DrawFn, outputs: int = 2, inputs: int = 2) -> Propagator:
    return Propagator.of_axes([draw(axes(outputs)) for _ in range(inputs)], outputs)


@st.composite
def configs(draw: st.DrawFn, rank: int = 2) -> StripeConfig:
    extent = [draw(st.integers(1, 12)) for _ in range(rank)]
    shape = [draw(st.integers(1, size)) for size in extent]
    order = draw(st.permutations(range(1, rank + 1)))
    return StripeConfig.even(extent, shape, order)


@settings(max_examples=100, deadline=None)
@given(configs())
def test_even_stripes_touch_every_element_once_in_the_order_given(config: StripeConfig) -> None:
    touched = Counter((y, x) for (a, b), (c, d) in config.boxes() for y in range(a, b) for x in range(c, d))
    assert set(touched.values()) == {1}
    assert len(touched) == config.extent[0] * config.extent[1]
    outer = config.order.index(1)
    starts = [box[outer][0] for box in config.boxes()]
    assert starts == sorted(starts)
    assert len(starts) == config.count


@settings(max_examples=100, deadline=None)
@given(propagators(), configs())
def test_propagated_stripes_cover_the_demand_of_each_and_are_equal_to_it_where_nothing_is_rounded(
    propagator: Propagator, config: StripeConfig
) -> None:
    stripes = propagated(propagator, config)
    shape = (9, 7)
    for out, covered in zip(config.boxes(), _by_indices(replace(stripes, extent=shape), config), strict=True):
        full = tuple((low, low + size) for (low, _), size in zip(out, config.shape, strict=True))
        needed = propagator.demand(full, shape)
        assert all(a <= c and d <= b for (a, b), (c, d) in zip(covered, needed, strict=True)) or not elements(needed)
        if is_whole(propagator):
            assert covered == needed


def _by_indices(stripes: StripeConfig, config: StripeConfig) -> list[Box]:
    """The input's stripe for each of the output's, in its order."""
    found = []
    for numbers in config.indices():
        order = dict(zip(config.order, numbers, strict=True))
        found.append(tuple(stripes.interval(a, order.get(stripes.order[a], 0)) for a in range(len(stripes.shape))))
    return found


@settings(max_examples=100, deadline=None)
@given(propagators(), propagators(), configs())
def test_composition_is_one_map_after_the_other_and_never_needs_more(first: Propagator, second: Propagator, config: StripeConfig) -> None:
    both = second @ first
    for box in config.boxes():
        apart, together = second.reach(first.reach(box)), both.reach(box)
        assert all(a <= c and d <= b for (a, b), (c, d) in zip(apart, together, strict=True))
        if is_whole(first):
            assert apart == together
    if is_whole(first) and is_whole(second):
        assert propagated(both, config) == propagated(second, propagated(first, config))


@settings(max_examples=100, deadline=None)
@given(propagators(), propagators(), propagators())
def test_composition_is_associative_and_has_an_identity(a: Propagator, b: Propagator, c: Propagator) -> None:
    assert (a @ b) @ c == a @ (b @ c)
    assert a @ Propagator.identity(2) == a == Propagator.identity(2) @ a


def _taps(o: int, window: tuple[int, int, int, int], factor: int) -> set[int]:
    """Elements of the array before the upscaling that output ``o`` reads, tap by tap."""
    taps, stride, dilation, pad = window
    return {(o * stride - pad + tap * dilation) // factor for tap in range(taps)}


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(-2, 3)),
    st.integers(1, 3),
    st.integers(0, 8),
    st.integers(1, 5),
)
def test_a_window_behind_an_upscaling_needs_what_its_taps_touch(
    form: tuple[int, int, int, int], factor: int, first: int, count: int
) -> None:
    taps, stride, dilation, pad = form
    own = window(0, taps=taps, stride=stride, dilation=dilation, pad=pad)
    before = Propagator.of_axes([upscaled(own, factor)], 1)
    touched = set().union(*(_taps(o, form, factor) for o in range(first, first + count)))
    assert before.reach(((first, first + count),)) == ((min(touched), max(touched) + 1),)


def test_bricks_and_back_is_the_hull_of_the_elements() -> None:
    channels = 40
    back = Propagator.of_axes([InputAxis(0), InputAxis(1), InputAxis(3)], 5)
    matrix = ((1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 16, 0, 1, -16), (0, 0, 0, 0, 0, 1))
    from_bricks = Propagator(matrix, (0, 0, 0, 0))
    assert back.outputs == from_bricks.outputs
    for low in range(3):
        for high in range(low + 1, 4):
            box = ((0, 1), (2, 5), (low, high), (1, 4), (0, 16))
            assert from_bricks.demand(box, (1, 9, 9, channels)) == ((0, 1), (2, 5), (1, 4), (16 * low, min(16 * high, channels)))
    some = ((0, 1), (2, 5), (1, 4), (17, 20))
    assert from_bricks.reach(TO_BRICKS.reach(some))[3] == (16, 32)
    assert from_bricks @ TO_BRICKS == Propagator.identity(4)


def test_nothing_is_needed_for_nothing() -> None:
    assert CONV_3X3.demand(((0, 1), (4, 4), (0, 3), (0, 4)), (1, 9, 9, 8)) == ((0, 0),) * 4


def test_what_lies_in_the_padding_needs_nothing() -> None:
    pad = Propagator.of_axes([InputAxis(0, offset=-3)], 1)
    assert elements(pad.demand(((0, 2),), (4,))) == 0
    assert pad.demand(((0, 5),), (4,)) == ((0, 2),)
    assert clip(pad.reach(((6, 9),)), whole((4,))) == ((3, 4),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Propagator(((1, 0), (0, 1)), ()), "2 rows and 0 offsets: give one row per offset, one more"),
        (lambda: Propagator(((1, 0), (1, 1)), (0,)), r"ends with \(1, 1\): end it with zeros and a 1"),
        (lambda: Propagator(((-1, 0), (0, 1)), (0,)), "coefficient of -1: an axis cannot run backwards"),
        (lambda: Propagator.identity(2) @ Propagator.identity(3), "of 2 output axes is put after one of 3 input axes"),
        (lambda: StripeConfig.even((4, 4), (2, 4), (1, 1)), r"stripes \(2, 1\): axes of one loop have equally many"),
        (lambda: StripeConfig.even((4, 4), (2, 2), (-1, 2)), r"order \(-1, 2\): number the loops from 1"),
        (lambda: StripeConfig.even((4, 4), (2, 2), (0, 1)), r"order \(0, 1\) for stripes \(2, 2\): an axis of order 0 has one stripe"),
        (lambda: StripeConfig.even((4, 4), (4, 0)), "shape"),
    ],
)
def test_what_is_not_affine_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
