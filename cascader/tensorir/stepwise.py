"""Sequences of integers as expressions of a loop variable: a rounded line, and the few places where it does not hold.

What a stripe makes of a tensor moves by the same step from stripe to stripe, but for the first ones and the last ones, which are
clipped; behind an upscaling the step is a fraction, rounded down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from cascader.tensorir.compat import load
from npu_model.values import dataclass

_DIVISORS = range(1, 9)
"""Denominators that are tried: the factors of upscaling in one cascade."""

_CANDIDATES = 3
"""Slopes that are tried for each: the first and the last stripes have others, which are exceptions anyway."""


@dataclass(frozen=True, slots=True)
class Stepwise:
    """The value at i is that of ``exceptions``, else floor((slope * i + start) / divisor)."""

    slope: int
    start: int
    divisor: int
    exceptions: Mapping[int, int]

    @property
    def cost(self) -> int:
        """Size of the expression: a unit for each exception, and one for each step of the divisor beyond 1."""
        return len(self.exceptions) + self.divisor - 1

    def __call__(self, index: int) -> int:
        """The value at ``index``."""
        return self.exceptions.get(index, (self.slope * index + self.start) // self.divisor)

    def expression(self, index: Any) -> Any:
        """The same of a variable of TVM."""
        tirx = load().tirx
        value = tirx.const(self.start, "int32") + (self.slope * index if self.slope else 0)
        value = tirx.floordiv(value, self.divisor) if self.divisor > 1 else value
        for place, exception in sorted(self.exceptions.items()):
            value = tirx.Select(index == tirx.const(place, "int32"), tirx.const(exception, "int32"), value)
        return value


def stepwise(values: Mapping[int, int]) -> Stepwise:
    """The line with the fewest exceptions, of which a larger divisor must save more than one each; places without a value get any.

    >>> stepwise({0: 0, 1: 3, 2: 7, 3: 11, 4: 15, 5: 16})
    Stepwise(slope=4, start=-1, divisor=1, exceptions={0: 0, 5: 16})
    >>> stepwise({0: -1, 1: 2, 2: 4, 3: 7})
    Stepwise(slope=5, start=-1, divisor=2, exceptions={})
    """
    best = Stepwise(0, 0, 1, values)
    for divisor in _DIVISORS:
        for slope in _slopes(values, divisor):
            start = _start(values, slope, divisor)
            line = Stepwise(slope, start, divisor, {})
            found = Stepwise(slope, start, divisor, {place: value for place, value in values.items() if line(place) != value})
            if found.cost < best.cost:
                best = found
    return best


def _slopes(values: Mapping[int, int], divisor: int) -> list[int]:
    """The commonest rises over ``divisor`` steps, where a rounded line repeats exactly, and over single steps."""
    rises = Counter(values[place + divisor] - values[place] for place in values if place + divisor in values)
    steps = Counter(divisor * (values[place + 1] - values[place]) for place in values if place + 1 in values)
    return sorted({0} | {slope for slope, _ in rises.most_common(_CANDIDATES) + steps.most_common(_CANDIDATES)})


def _start(values: Mapping[int, int], slope: int, divisor: int) -> int:
    """The start for which most values are met, the smallest of several."""
    met = Counter(divisor * value - slope * place + rest for place, value in values.items() for rest in range(divisor))
    return min(met, key=lambda start: (-met[start], start), default=0)
