"""The fit of timing parameters: what it finds, what it may see, what it refuses."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Sequence
from fractions import Fraction

import pytest
from calibrations import TOOLS, as_if, needs_scipy, short_measurements
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from npu_model.errors import InputError
from npu_model.program import OperationKind
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.calibrate import (
    Measurement,
    calibrate_check,
    calibrate_fit,
    fit_tables,
    from_toml,
    reference_measurements,
    to_toml,
)
from validation.calibrate.bootstrap import outwards
from validation.calibrate.calibration import by_accelerator, by_network, leave_out
from validation.calibrate.evaluation import Errors, Evaluator
from validation.calibrate.fit import fit
from validation.calibrate.parameters import PARAMETERS, fitted_parameters, timing_at
from validation.calibrate.solver import bounded_step


@given(st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**32))))
@settings(max_examples=40, deadline=None)
def test_the_bounded_step_is_no_worse_than_any_point_of_a_grid_between_the_bounds(case: tuple[int, int]) -> None:
    needs_scipy()
    count, seed = case
    draws = random.Random(seed)
    slopes = [[draws.uniform(-1, 1) for _ in range(count)] for _ in range(6)]
    residuals = [draws.uniform(-1, 1) for _ in range(6)]
    lower, upper = [-1.0] * count, [draws.choice((0.0, 2.0, -1.0)) for _ in range(count)]

    def cost(step: tuple[float, ...]) -> float:
        return sum((r + sum(s * x for s, x in zip(row, step, strict=True))) ** 2 for row, r in zip(slopes, residuals, strict=True))

    step = tuple(bounded_step(slopes, residuals, lower, upper))
    assert all(x == 0 if low == high else low - 1e-9 <= x <= high + 1e-9 for x, low, high in zip(step, lower, upper, strict=True))
    axes = [[low + (high - low) * i / 6 for i in range(7)] if low < high else [0.0] for low, high in zip(lower, upper, strict=True)]
    assert cost(step) <= min(cost(point) for point in itertools.product(*axes)) + 1e-9


def test_a_fit_finds_the_parameters_of_an_npu_that_is_the_model_with_others() -> None:
    needs_scipy()
    truth = TimingParameters(decoder_cycles_per_channel=6, output_start_cycles=8)
    found = fit(as_if(short_measurements(), truth), fitted_parameters(("decoder_cycles_per_channel", "output_start_cycles")), Evaluator())
    assert found.timing == truth
    assert found.errors == Errors(8, 0.0, 0.0)


def mixed_measurements() -> tuple[Measurement, ...]:
    """Five short inferences: many small kernels on two devices, one with a slow memory, and one of long kernels."""
    names = ("rnnoise_INT8 ethos-u55-32 off", "rnnoise_INT8 ethos-u55-256 off", "rnnoise_INT8 ethos-u55-128 u55_high_end")
    wanted = (*names, "rnnoise_INT8 ethos-u55-64 off", "kws_micronet_m ethos-u55-256 off")
    return tuple(m for m in reference_measurements() if m.name in wanted)


SETS = (
    ("kernel_start_cycles", "decoder_cycles_per_channel", "output_scale"),
    ("pool_floor", "output_start_cycles"),
    ("command_cycles_per_word", "decoder_cycles_per_channel"),
    ("output_scale", "kernel_start_cycles"),
    ("lookahead", "pool_floor"),
)


@pytest.mark.law
@pytest.mark.parametrize("number", range(0, 20 if os.environ.get("NPU_TESTBED_ALL") else 3 * len(SETS), 3))
def test_a_fit_finds_a_drawn_truth_or_says_which_parameters_the_data_cannot_tell_apart(number: int) -> None:
    needs_scipy()
    parameters = fitted_parameters(SETS[number % len(SETS)])
    draws = random.Random(number)
    truth = timing_at(parameters, [draws.randint(0, parameter.notches) for parameter in parameters], DEFAULT_TIMING)
    if number == 0:
        # The one that stopped in a local minimum: it came back as 4, 7, 7/6.
        truth = replace(DEFAULT_TIMING, kernel_start_cycles=24, decoder_cycles_per_channel=6, output_scale=Fraction(7, 6))
    found = fit(as_if(mixed_measurements(), truth), parameters, Evaluator())
    differ = {p.name for p in parameters if getattr(found.timing, p.name) != getattr(truth, p.name)}
    assert found.errors.mean == 0
    assert differ <= set(found.undecided)


HARD_TRUTHS = (
    {"lookahead": 120, "grant": 3, "output_scale": Fraction(14, 15)},
    {"decoder_cycles_per_channel": 8, "lookahead": 224, "grant": 31},
    {"lookahead": 240, "output_start_cycles": 24, "pool_floor": 17},
)
"""Truths that a fit from one start missed: it ended in a minimum along ``lookahead`` or ``grant``, or in a valley across two parameters."""


@pytest.mark.parametrize("truth", HARD_TRUTHS, ids="-".join)
def test_a_fit_leaves_the_local_minima_of_lookahead_and_grant(truth: dict[str, int | Fraction]) -> None:
    needs_scipy()
    found = fit(as_if(mixed_measurements(), replace(DEFAULT_TIMING, **truth)), fitted_parameters(tuple(truth)), Evaluator())
    assert found.errors.mean == 0
    assert {name for name, value in truth.items() if getattr(found.timing, name) != value} <= set(found.undecided)


@given(st.floats(0, 100), st.floats(0, 10))
def test_an_interval_is_rounded_outwards(low: float, width: float) -> None:
    first, last = outwards(low, low + width)
    assert first <= round(low, 6)
    assert round(low + width, 6) <= last
    assert last - first < width + 2 + 1e-6


def test_a_parameter_that_changes_nothing_is_not_decided_and_its_interval_says_so() -> None:
    """Without pools a pooling floor is whatever one likes; the start of kernels is found all the same."""
    needs_scipy()
    (one,) = (m for m in mixed_measurements() if m.network == "kws_micronet_m")
    (program,) = one.programs
    pooled = (getattr(op, "kind", None) is OperationKind.POOL for op in program.operations)
    end = next(index for index, is_pool in enumerate(pooled) if is_pool)
    convolutions = replace(program, operations=program.operations[:end], words=program.words[:end])
    alone = replace(one, programs=(convolutions,), work=())
    measured = as_if([replace(alone, name=f"{n}", network=f"{n % 2}") for n in range(4)], TimingParameters(kernel_start_cycles=40))
    names = ("kernel_start_cycles", "pool_floor")
    found = fit(measured, fitted_parameters(names), Evaluator())
    assert found.timing.kernel_start_cycles == 40
    assert found.undecided == ("pool_floor",)
    profile = calibrate_fit(measured, name="n", date="2026-11-26", tools=TOOLS, parameters=names)
    start, floor = profile.fitted
    assert (start.interval_low, start.interval_high) == (40, 40)
    assert (floor.interval_low, floor.interval_high) == (4, 32)
    assert from_toml(to_toml(profile)) == profile
    assert {one.values for one in profile.sets} >= {("40", "4"), ("40", "32")}
    assert all(one.mean == 0 for one in profile.sets)
    assert "Parameter sets within the noise" in "".join(table.text() for table in fit_tables(profile))
    assert any("Not decided by these measurements" in note and "pool_floor" in note for note in fit_tables(profile)[0].notes)


def test_a_fit_stays_at_a_bound_when_the_truth_lies_beyond_it() -> None:
    needs_scipy()
    found = fit(
        as_if(short_measurements(), TimingParameters(decoder_cycles_per_channel=12)),
        fitted_parameters(("decoder_cycles_per_channel",)),
        Evaluator(),
    )
    assert found.timing.decoder_cycles_per_channel == 8


class Rigged(Evaluator):
    """An NPU whose errors fall with the first few cycles of output start-up and leap up from the fifth on."""

    def errors(self, measurements: Sequence[Measurement], timing: TimingParameters) -> list[float]:
        cycles = timing.output_start_cycles
        return [1 - cycles / 10 if cycles < 5 else 5.0 for _ in measurements]


def test_a_fit_never_takes_a_step_that_makes_things_worse() -> None:
    needs_scipy()
    found = fit(short_measurements()[:2], fitted_parameters(("output_start_cycles",)), Rigged())
    # The slope at 0 points to 10 cycles; half of it is worse still, a quarter is better.
    assert found.timing.output_start_cycles in (2, 3, 4)
    assert abs(found.errors.mean) < 1


def test_a_fold_is_fitted_to_the_others_alone() -> None:
    needs_scipy()
    small, large = (
        next(m for m in short_measurements() if m.accelerator == name and m.memory == "off") for name in ("ethos-u55-32", "ethos-u55-256")
    )
    others = tuple(replace(m, name=f"{m.name} again") for m in (small, large))
    slow = as_if((small, others[0]), TimingParameters(decoder_cycles_per_channel=8))
    fast = as_if((large, others[1]), DEFAULT_TIMING)
    folds = leave_out(slow + fast, fitted_parameters(("decoder_cycles_per_channel",)), Evaluator(), by_accelerator, DEFAULT_TIMING)
    assert [(fold.left_out, fold.values) for fold in folds] == [
        ("ethos-u55-32", (("decoder_cycles_per_channel", "4"),)),
        ("ethos-u55-256", (("decoder_cycles_per_channel", "8"),)),
    ]


def test_a_fold_scores_only_what_its_fit_has_not_seen() -> None:
    needs_scipy()
    # One accelerator was "measured" on another NPU: the folds that see it disagree with the one that does not.
    slow = TimingParameters(decoder_cycles_per_channel=6)
    measurements = tuple(as_if((m,), slow if m.accelerator == "ethos-u55-32" else DEFAULT_TIMING)[0] for m in short_measurements())
    fitted = calibrate_fit(measurements, name="n", date="2026-11-21", tools=TOOLS, parameters=("decoder_cycles_per_channel",))
    folds = {fold.left_out: fold for fold in fitted.folds}
    assert set(folds) == {"ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256"}
    evaluator = Evaluator()
    left_out = [m for m in measurements if by_accelerator(m) == "ethos-u55-32"]
    assert folds["ethos-u55-32"].mean == pytest.approx(Errors.of(evaluator.errors(left_out, DEFAULT_TIMING)).mean, abs=1e-6)
    assert folds["ethos-u55-32"].mean > folds["ethos-u55-64"].mean
    assert {by_network(m) for m in measurements} == {"rnnoise_INT8"}
    assert fitted.held_out("network").count == 0


def test_a_measurement_declared_a_test_is_not_fitted_to() -> None:
    needs_scipy()
    honest = as_if(short_measurements(), TimingParameters(decoder_cycles_per_channel=5))
    # Counters from nowhere, which would pull any fit that looked at them.
    misleading = tuple(replace(m, name=f"{m.name} test", active=m.active * 2, calibrates=False) for m in honest)
    fitted = calibrate_fit(honest + misleading, name="n", date="d", tools=TOOLS, parameters=("decoder_cycles_per_channel",))
    assert fitted.timing == TimingParameters(decoder_cycles_per_channel=5)
    assert len(fitted.points) == len(honest)
    with pytest.raises(InputError, match="is declared a test: leave it out of the fit"):
        fit(misleading, fitted_parameters(("grant",)), Evaluator())
    check = calibrate_check(fitted, honest + misleading)
    assert (check.seen.mean, check.unseen.count, check.passed) == (0.0, 8, True)
    assert check.unseen.worst == pytest.approx(-0.5, abs=0.01)


def test_a_fit_repeats_to_the_byte_and_its_interval_holds_the_fitted_value() -> None:
    needs_scipy()
    measurements = short_measurements()
    first, second = (
        to_toml(calibrate_fit(measurements, name="n", date="2026-11-21", tools=TOOLS, parameters=("decoder_cycles_per_channel",)))
        for _ in range(2)
    )
    assert first == second
    (value,) = from_toml(first).fitted
    assert value.interval_low <= float(value.value) <= value.interval_high
    assert float(value.lower) <= value.interval_low
    assert value.interval_high <= float(value.upper)


def test_without_scipy_a_fit_says_what_to_install_before_anything_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    replays: list[int] = []
    with pytest.raises(
        InputError, match=r"^SciPy is not installed, which fits the timing parameters: pip install 'npu-testbed\[calibrate\]'\.$"
    ):
        calibrate_fit(short_measurements(), name="n", date="d", tools=TOOLS, progress=replays.append)
    assert not replays


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("speed",), "Timing parameter 'speed' cannot be fitted: choose among"),
        (("grant", "grant"), "is named 2 times: name each once"),
        ((), "0 timing parameters are to be fitted: 1 to 3"),
        (tuple(p.name for p in PARAMETERS[:4]), "4 timing parameters are to be fitted: 1 to 3"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted_parameters(names)


def test_a_fit_needs_more_measurements_than_parameters() -> None:
    needs_scipy()
    with pytest.raises(InputError, match="2 measurements are too few to fit 2 parameters: give 3 or more that"):
        fit(short_measurements()[:2], fitted_parameters(("grant", "lookahead")), Evaluator())


def test_a_group_without_which_too_few_are_left_is_not_left_out() -> None:
    needs_scipy()
    names = ("few", "few", "many", "many", "many")
    odd = [replace(measurement, network=name) for measurement, name in zip(short_measurements()[:5], names, strict=True)]
    folds = leave_out(odd, fitted_parameters(("grant", "lookahead")), Evaluator(), by_network, DEFAULT_TIMING)
    assert [fold.left_out for fold in folds] == ["few"]


def test_six_measurements_over_two_accelerators_are_enough_for_the_three_default_parameters() -> None:
    needs_scipy()
    two = [m for m in short_measurements() if m.accelerator in ("ethos-u55-64", "ethos-u55-128")]
    six = [*two, *(replace(m, name=f"{m.name} again") for m in two[::2])]
    assert len({m.accelerator for m in six}) == 2
    profile = calibrate_fit(six, name="board", date="2026-11-22", tools=TOOLS)
    assert len(profile.points) == 6


def test_a_perfect_fit_passes_its_check() -> None:
    needs_scipy()
    measured = as_if(short_measurements()[:4], TimingParameters(kernel_start_cycles=8))
    two = tuple(replace(m, network=f"net{index % 2}") for index, m in enumerate(measured))
    profile = calibrate_fit(two, name="board", date="2026-11-22", tools=TOOLS, parameters=("kernel_start_cycles",))
    assert profile.errors.mean == 0
    check = calibrate_check(profile, two)
    assert check.passed
    assert check.most == 0.005
