"""The rules of time of the Ethos-U85 that the published inferences decide, each with the points without it.

The rules are also chosen by some of the points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from npu_model.accelerator import ArrayRates
from npu_model.cost.deep_jobs import TimedProgram, timed_chains
from npu_model.timing import DEFAULT_TIMING
from validation.fvp.references.records import ReferencePoint, measured_program, u85_points
from validation.fvp.scorecard import score_point
from validation.fvp.scores import mean_error
from validation.fvp.u65_rules import RuleScore, changed_device, without

RULES: tuple[tuple[str, dict[str, object]], ...] = (
    ("all rules", {}),
    ("steps of a convolution fill at once", {"step_fill": 0}),
    ("pools take a cycle for a tap", {"pool_floor": 1}),
    ("decoders give 8 weights a cycle", {"decoded_weights": 8}),
    ("decoders give 32 weights a cycle", {"decoded_weights": 32}),
    ("a lane multiplies 32 bits a cycle", {"lane_bits": 32}),
    ("weights slot by slot", {"weight_bursts": 0}),
    ("fast weights at 16 a cycle", {"fast_decoded_weights": 16}),
    ("weights of one step ahead, not two", {"weight_steps": 1}),
    ("scales follow the weights, without a buffer of their own", {"scale_words": 0}),
    ("scales with twice the buffer", {"scale_words": 32}),
    ("one command fetch, whatever the ports", {"fetch_by_port": False}),
    ("no latency beyond the adapter's", {"ext_latency": 0}),
    ("IFM blocks asked for ahead", {"ifm_ahead": True}),
    ("SRAM as wide as all ports", {"sram_words": 0}),
    ("one word of SRAM a cycle", {"sram_words": 1}),
)
"""Fields of the accelerator's access or array that each row changes."""

CHOICES: dict[str, tuple[int, ...]] = {
    "scale_words": (0, 16, 32),
    "weight_steps": (1, 2, 4),
    "fetch_by_port": (False, True),
    "ext_latency": (0, 20, 35, 50, 70),
    "step_fill": (0, 8, 16, 24, 32),
    "sram_words": (1, 2, 4),
    "decoded_weights": (8, 16, 32),
}
"""Values of each constant that is not a fact of the hardware."""

Setting = Mapping[str, int]
"""Each constant and its value."""

Values = tuple[tuple[str, int], ...]
"""Constants of an accelerator, each with its value."""


@lru_cache(maxsize=128)
def _timed(point: ReferencePoint, values: Values) -> TimedProgram:
    """The jobs of a point with these constants of the MAC array: they take most of a replay's time, and no other constant changes them."""
    program = measured_program(point.network, point.accelerator)
    return timed_chains(program, changed_device(point.accelerator, dict(values)), DEFAULT_TIMING)


@cache
def _error(point: ReferencePoint, values: Values) -> float:
    timed = _timed(point, tuple((key, value) for key, value in values if key in ArrayRates.__struct_fields__))
    return score_point(point, DEFAULT_TIMING, changed_device(point.accelerator, dict(values)), timed).error


def errors(measured: Sequence[ReferencePoint], setting: Setting) -> list[float]:
    """The errors of some points with a setting."""
    return [_error(point, tuple((key, setting[key]) for key in CHOICES)) for point in measured]


def chosen(measured: Sequence[ReferencePoint], start: Setting) -> Setting:
    """The setting of the least mean error over some points: one constant at a time from a start, until none improves."""
    best, least = dict(start), mean_error(errors(measured, start))
    improved = True
    while improved:
        improved = False
        for name in start:
            for value in CHOICES[name]:
                tried = best | {name: value}
                found = mean_error(errors(measured, tried))
                if found < least - 1e-9:
                    best, least, improved = tried, found, True
    return best


NEUTRAL: Setting = {
    "scale_words": 16,
    "weight_steps": 1,
    "fetch_by_port": False,
    "ext_latency": 0,
    "step_fill": 0,
    "sram_words": 4,
    "decoded_weights": 16,
}
"""The initial setting: the documented facts of the hardware, and no rule for undocumented ones."""


def refitted(measured: Sequence[ReferencePoint]) -> RuleScore:
    """Every point with the constants that the other networks choose."""
    found: dict[ReferencePoint, float] = {}
    for network in dict.fromkeys(point.network for point in measured):
        others, left = ([point for point in measured if (point.network == network) == same] for same in (False, True))
        found |= dict(zip(left, errors(left, chosen(others, NEUTRAL)), strict=True))
    return RuleScore("chosen by the other networks", tuple(measured), tuple(found[point] for point in measured))


def without_each() -> list[RuleScore]:
    """The points with all rules, and without each."""
    return [without(name, changes, DEFAULT_TIMING, u85_points()) for name, changes in RULES]
