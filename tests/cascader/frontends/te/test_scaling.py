"""Scales of sums as registers: each operand, rescaled or shifted left, times the scale of the result is its own scale over the result's."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.frontends.te.scaling import sum_scales
from npu_model.program import Scale, ScaledOperand

LEFT = {8: 1 << 19, 16: 1 << 14}
"""Factor of the operand that is only shifted left, by bits: a shift of 20 or 15, less the 2 that the scale of the result has."""

SCALES = st.floats(2**-10, 2**4)
ROUNDED = Fraction(1, 1 << 29)


def value(scale: Scale) -> Fraction:
    return Fraction(scale.scale, 1 << scale.shift) if scale.shift >= 0 else Fraction(scale.scale << -scale.shift)


def require_near(found: Fraction, wanted: Fraction) -> None:
    assert abs(found / wanted - 1) < ROUNDED


@given(SCALES, SCALES, SCALES, st.sampled_from([8, 16]), st.booleans())
def test_each_operand_of_a_sum_has_its_own_scale(first: float, second: float, out: float, bits: int, swapped: bool) -> None:  # noqa: FBT001  # drawn
    made = sum_scales(first, second, out, bits, swapped=swapped)
    wanted = [Fraction(one) / Fraction(out) for one in sorted((first, second))]
    if made.operand is ScaledOperand.BOTH:
        assert first == second
        require_near(value(made.first) * value(made.out), wanted[0])
        assert made.first == made.second
    else:
        require_near(value(made.first) * value(made.out), wanted[0])
        require_near(LEFT[bits] * value(made.out), wanted[1])
        assert (made.operand is ScaledOperand.A) == ((first <= second) != swapped)


@pytest.mark.parametrize(("bits", "factor"), [(8, 1 << 15), (16, 1 << 14)])
def test_equal_scales_are_powers_of_two_where_one_rounding_is_as_good_as_two(bits: int, factor: int) -> None:
    made = sum_scales(0.5, 0.5, 0.25, bits, swapped=False)
    assert (made.operand, made.first, made.second) == (ScaledOperand.BOTH, Scale(factor, 0), Scale(factor, 0))
    require_near(factor * value(made.out), Fraction(2))
