"""Sequences of integers as expressions of a loop variable: a rounded line, and the few places where it does not hold.

What a stripe makes of a tensor moves by the same step from stripe to stripe, but for the first ones and the last ones, which are
clipped; behind an upscaling the step is a fraction, rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cascader.tensorir.compat import load

_DIVISORS = range(1, 9)
"""Denominators that are tried: the factors of upscaling in one cascade."""


@dataclass(frozen=True, slots=True)
class Stepwise:
    """The value at i is that of ``exceptions``, else floor((slope * i + start) / divisor)."""

    slope: int
    start: int
    divisor: int
    exceptions: Mapping[int, int]

    @property
    def cost(self) -> int:
        """What the expression takes to write down."""
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
    Stepwise(slope=5, start=-2, divisor=2, exceptions={})
    """
    best: Stepwise | None = None
    for divisor in _DIVISORS:
        for slope in sorted({divisor * (b - a) for a, b in _neighbours(values)} | _slopes(values, divisor)):
            for start in _starts(values, slope, divisor):
                line = Stepwise(slope, start, divisor, {})
                found = Stepwise(slope, start, divisor, {place: value for place, value in values.items() if line(place) != value})
                if best is None or found.cost < best.cost:
                    best = found
    return best or Stepwise(0, 0, 1, {})


def _neighbours(values: Mapping[int, int]) -> list[tuple[int, int]]:
    return [(values[place], values[place + 1]) for place in values if place + 1 in values] or [(0, 0)]


def _slopes(values: Mapping[int, int], divisor: int) -> set[int]:
    """Slopes over ``divisor`` steps, where a rounded line repeats exactly."""
    return {values[place + divisor] - values[place] for place in values if place + divisor in values}


def _starts(values: Mapping[int, int], slope: int, divisor: int) -> list[int]:
    """Starts for which some value is met."""
    residues = {divisor * value - slope * place for place, value in values.items()}
    return sorted({residue + rest for residue in residues for rest in range(divisor)})
