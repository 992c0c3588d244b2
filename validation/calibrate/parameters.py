"""The timing parameters that a calibration may move: physical bounds and the grid of values in between."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from npu_model.errors import InputError
from npu_model.timing import TimingParameters

MAX_FITTED = 3
"""Largest number of parameters in one fit. More would follow the noise of a few dozen points."""


class Parameter(Struct, frozen=True):
    """A field of :class:`TimingParameters` with its bounds, and the ``step`` of the grid that a fit searches.

    The position of a value on the grid is its notch: 0 is ``lower``, ``notches`` is ``upper``. ``reason`` says where the bounds come from.
    """

    name: str
    lower: Fraction
    upper: Fraction
    step: Fraction
    reason: str

    @property
    def notches(self) -> int:
        """Notch of the upper bound."""
        return int((self.upper - self.lower) / self.step)

    def value(self, notch: int) -> int | Fraction:
        """Value at a notch: a whole number for an integer parameter."""
        value = self.lower + notch * self.step
        return value if self.name == "output_scale" else int(value)

    def notch(self, timing: TimingParameters) -> int:
        """Notch nearest to the parameter's value in ``timing``, within the bounds."""
        notch = round((Fraction(getattr(timing, self.name)) - self.lower) / self.step)
        return max(0, min(self.notches, notch))


def _parameter(name: str, lower: int, upper: int, step: int, reason: str) -> Parameter:
    return Parameter(name, Fraction(lower), Fraction(upper), Fraction(step), reason)


PARAMETERS = (
    _parameter("kernel_start_cycles", 0, 96, 4, "a pipeline is filled in some dozens of cycles"),
    _parameter("output_start_cycles", 0, 32, 1, "scaling, rounding, clamping and look-up are a few stages each"),
    Parameter("output_scale", Fraction(3, 4), Fraction(5, 4), Fraction(1, 60), "Vela's table of output rates, give or take a quarter"),
    _parameter("pool_floor", 4, 32, 1, "Vela's cores say 4 and 16"),
    _parameter("decoder_cycles_per_channel", 1, 8, 1, "32 weights at 4 to 32 a cycle"),
    _parameter("command_cycles_per_word", 0, 4, 1, "a word is decoded and stored in a register"),
    _parameter("lookahead", 0, 256, 8, "at most 32 transactions of 64 bytes"),
    _parameter("grant", 1, 32, 1, "at most all outstanding reads that the AXI limit registers allow"),
)
"""Parameters that can be fitted. Switches and structure (double buffers, BLOCKDEP) are facts, not quantities."""

DEFAULT_FITTED = ("kernel_start_cycles", "output_start_cycles", "output_scale")
"""Parameters that a fit moves by default: those that Arm's own estimators leave out or only tabulate."""


def fitted_parameters(names: Sequence[str] = DEFAULT_FITTED) -> tuple[Parameter, ...]:
    """The parameters of these names; InputError for an unknown name, one given twice, none, or more than three."""
    known = {parameter.name: parameter for parameter in PARAMETERS}
    for name in names:
        if name not in known:
            raise InputError(f"Timing parameter {name!r} cannot be fitted: choose among {', '.join(known)}.")
        if names.count(name) > 1:
            raise InputError(f"Timing parameter {name!r} is named {names.count(name)} times: name each once.")
    if not 1 <= len(names) <= MAX_FITTED:
        raise InputError(f"{len(names)} timing parameters are to be fitted: 1 to {MAX_FITTED} can be told apart; name fewer or more.")
    return tuple(known[name] for name in names)


def timing_at(parameters: Sequence[Parameter], notches: Sequence[int], base: TimingParameters) -> TimingParameters:
    """``base`` with each parameter at its notch."""
    values: dict[str, Any] = {parameter.name: parameter.value(notch) for parameter, notch in zip(parameters, notches, strict=True)}
    return replace(base, **values)
