"""Span: which integers an index expression can reach while the axes of a box run, as an affine function of the box.

The rules are those of intervals. For integers they are exact for sums with different variables, products with constants and
floor divisions by constants; what they cannot say exactly has no span here, and the caller takes the whole axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from cascader.tensorir.compat import load
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Integers from ``floor(row . a + low)`` to before ``ceil(row . b + high)`` for a box whose axes run over [a, b).

    >>> Span.of_axis(1, 2) + Span.of_loop(3) + Span.of_constant(-1)
    Span(row=(Fraction(0, 1), Fraction(1, 1)), low=Fraction(-1, 1), high=Fraction(1, 1))
    """

    row: tuple[Fraction, ...]
    low: Fraction
    high: Fraction

    @classmethod
    def of_axis(cls, axis: int, axes: int) -> Span:
        """The values of an axis of the box, of ``axes``."""
        return cls(tuple(Fraction(int(index == axis)) for index in range(axes)), Fraction(0), Fraction(0))

    @classmethod
    def of_loop(cls, extent: int) -> Span:
        """The values of a loop that runs from 0 to before ``extent`` for every element."""
        return cls((), Fraction(0), Fraction(extent))

    @classmethod
    def of_constant(cls, value: int) -> Span:
        """One value."""
        return cls((), Fraction(value), Fraction(value + 1))

    @property
    def is_whole(self) -> bool:
        """Whether nothing is rounded."""
        return all(value.denominator == 1 for value in (*self.row, self.low, self.high))

    @property
    def constant(self) -> int | None:
        """The value, if there is one only."""
        return int(self.low) if not any(self.row) and self.is_whole and self.high == self.low + 1 else None

    def __add__(self, other: Span) -> Span:
        """Sums of a value of each; the last values add up, and each end is one behind its last value."""
        length = max(len(self.row), len(other.row))
        rows = (span.row + (Fraction(0),) * (length - len(span.row)) for span in (self, other))
        return Span(tuple(a + b for a, b in zip(*rows, strict=True)), self.low + other.low, self.high + other.high - 1)

    def times(self, factor: int) -> Span:
        """Products with a factor of 1 or more."""
        return Span(tuple(factor * value for value in self.row), factor * self.low, factor * (self.high - 1) + 1)

    def divided(self, by: int) -> Span:
        """Floor divisions by 1 or more: an integer x has floor((x - 1) / d) + 1 = ceil(x / d)."""
        return Span(tuple(value / by for value in self.row), self.low / by, self.high / by)


def span(expression: Any, axes: Sequence[Any], loops: Mapping[Any, int]) -> Span | None:
    """The span of an index expression over the ``axes`` of a box and the loops that run for every element, by their extents.

    None if the rules cannot say it exactly: an axis runs backwards, two rounded values meet, or the expression is not affine.
    """
    tirx = load().tirx
    if isinstance(expression, tirx.IntImm):
        return Span.of_constant(int(expression.value))
    if isinstance(expression, load().var):
        if expression in loops:
            return Span.of_loop(loops[expression])
        return Span.of_axis(list(axes).index(expression), len(axes)) if expression in axes else None
    if isinstance(expression, (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv)):
        a, b = span(expression.a, axes, loops), span(expression.b, axes, loops)
        return None if a is None or b is None else _combined(expression, a, b)
    return None


def _combined(expression: Any, a: Span, b: Span) -> Span | None:
    tirx = load().tirx
    factor = b.constant
    if isinstance(expression, tirx.FloorDiv):
        return a.divided(factor) if factor is not None and factor >= 1 else None
    if isinstance(expression, tirx.Mul):
        other = a
        if factor is None:
            factor, other = a.constant, b
        # A rounded value times a factor is not the rounded product.
        return other.times(factor) if factor is not None and factor >= 1 and (other.is_whole or factor == 1) else None
    if isinstance(expression, tirx.Sub):
        # Only what does not grow with the box may be taken away: an axis cannot run backwards.
        return a + Span((), 1 - b.high, 1 - b.low) if not any(b.row) and b.is_whole else None
    # Two rounded values: the sum of two floors may lie below the floor of the sum.
    return a + b if a.is_whole or b.is_whole else None
