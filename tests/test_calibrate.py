from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import shared_data

from npu_model.accelerator import accelerator
from npu_model.compiled import read_compiled
from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from npu_model.timing_adapter import profile
from sim import Cause, Unit, operation_beats, replay
from validation.calibrate import (
    CalibrationProfile,
    Measurement,
    calibrate_check,
    calibrate_fit,
    check_tables,
    fit_tables,
    from_toml,
    read_measurements,
    reference_measurements,
    reference_profile,
    timing_from_table,
    to_toml,
)
from validation.calibrate.crossvalidation import by_accelerator, by_network, leave_out
from validation.calibrate.evaluation import Errors, Evaluator
from validation.calibrate.fit import fit
from validation.calibrate.measurements import COLUMNS
from validation.calibrate.parameters import PARAMETERS, fitted_parameters, timing_at
from validation.calibrate.profile import ErrorFigures, FittedPoint, FittedValue, FoldErrors
from validation.calibrate.solver import bounded_step
from validation.references.records import measured_program

TOOLS = (("npu-testbed", "0"),)


def _scipy() -> None:
    pytest.importorskip("scipy", reason="SciPy (extra calibrate) is not installed, which fits")


def _short() -> tuple[Measurement, ...]:
    """The measurements that replay in a tenth of a second each."""
    return tuple(m for m in reference_measurements() if m.network == "rnnoise_INT8")


def _as_if(measurements: tuple[Measurement, ...], timing: TimingParameters) -> tuple[Measurement, ...]:
    """The same inferences, measured on an NPU that is exactly our model with other parameters."""
    evaluator = Evaluator()
    return tuple(replace(m, active=evaluator.cycles(m, timing)) for m in measurements)


# The timing parameters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool_floor": 0}, "Timing parameter pool_floor is 0: it ranges from 1 to 64; give an integer in that range."),
        ({"grant": True}, "Timing parameter grant is True: it ranges from 1 to 1024; give an integer in that range."),
        ({"output_scale": 1.5}, "Timing parameter output_scale is 1.5: it is a ratio from 0 to 64; write it as 1 or 7/6."),
        ({"shram_drains": 1}, "Timing parameter shram_drains is 1: it is a switch; write true or false."),
    ],
)
def test_a_timing_parameter_out_of_its_range_is_one_sentence(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        replace(DEFAULT_TIMING, **change)
    assert str(error.value) == message


def test_a_kernel_start_delays_the_input_load_by_so_many_cycles_per_kernel() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    run = replay(program, profile("off").memory_system(), timing=TimingParameters(kernel_start_cycles=7))
    assert run.waits[Unit.IFM, Cause.START] == 7 * len(program.kernels)


def test_an_output_start_adds_to_every_block_of_the_output_unit() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    system = profile("off").memory_system()
    before, after = replay(program, system), replay(program, system, timing=TimingParameters(output_start_cycles=3))
    added = after.busy[Unit.AO] - before.busy[Unit.AO]
    assert added > 0
    assert added % 3 == 0
    assert added // 3 >= len(program.kernels)


def test_the_command_processor_takes_the_cycles_per_word_that_it_is_given() -> None:
    program = measured_program("rnnoise_INT8", "ethos-u55-128")
    for cycles in (0, 1, 3):
        run = replay(program, profile("off").memory_system(), timing=TimingParameters(command_cycles_per_word=cycles))
        assert run.busy.get(Unit.CC, 0) == cycles * sum(program.words)


def test_the_timing_parameters_change_no_beat_but_for_the_ifm_that_is_kept() -> None:
    program = measured_program("kws_micronet_m", "ethos-u55-32")
    system = profile("off").memory_system()
    beats = replay(program, system).beats
    others = TimingParameters(
        pool_floor=4,
        output_scale=Fraction(7, 6),
        buffer_slots=1,
        blockdep=BlockdepRule.DRAINED,
        weights_ahead=False,
        ifm_burst_divisor=1,
        grant=1,
    )
    assert replay(program, system, timing=others).beats == beats
    # The measured streams with an IFM deep enough to need many OFM depth blocks are those of the detector.
    detector = measured_program("yolo_fastest_192_face", "ethos-u55-256")
    device = accelerator(detector.accelerator)
    forgetful = TimingParameters(kept_ifm_blocks=0)
    kept = [operation_beats(op, device, system).axi0_read for op in detector.operations]
    fetched = [operation_beats(op, device, system, forgetful).axi0_read for op in detector.operations]
    assert sum(fetched) > sum(kept)


def test_every_parameter_that_can_be_fitted_stays_inside_what_the_model_accepts() -> None:
    names = {field.name for field in fields(TimingParameters)}
    for parameter in PARAMETERS:
        assert parameter.name in names
        assert parameter.lower + parameter.notches * parameter.step == parameter.upper
        assert parameter.value(parameter.notch(DEFAULT_TIMING)) == getattr(DEFAULT_TIMING, parameter.name)
        for notch in (0, parameter.notches):
            assert parameter.notch(timing_at([parameter], [notch], DEFAULT_TIMING)) == notch


# The fit


@given(st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**32))))
@settings(max_examples=40, deadline=None)
def test_the_bounded_step_is_no_worse_than_any_point_of_a_grid_between_the_bounds(case: tuple[int, int]) -> None:
    _scipy()
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
    _scipy()
    truth = TimingParameters(decoder_cycles_per_channel=6, output_start_cycles=5)
    found = fit(_as_if(_short(), truth), fitted_parameters(("decoder_cycles_per_channel", "output_start_cycles")), Evaluator())
    assert found.timing == truth
    assert found.errors == Errors(8, 0.0, 0.0)


def test_a_fit_stays_at_a_bound_when_the_truth_lies_beyond_it() -> None:
    _scipy()
    found = fit(
        _as_if(_short(), TimingParameters(decoder_cycles_per_channel=12)), fitted_parameters(("decoder_cycles_per_channel",)), Evaluator()
    )
    assert found.timing.decoder_cycles_per_channel == 8


class Rigged(Evaluator):
    """An NPU whose errors fall with the first few cycles of output start-up and leap up from the fifth on."""

    def errors(self, measurements: Sequence[Measurement], timing: TimingParameters) -> list[float]:
        cycles = timing.output_start_cycles
        return [1 - cycles / 10 if cycles < 5 else 5.0 for _ in measurements]


def test_a_fit_never_takes_a_step_that_makes_things_worse() -> None:
    _scipy()
    found = fit(_short()[:2], fitted_parameters(("output_start_cycles",)), Rigged())
    # The slope at 0 points to 10 cycles; half of it is worse still, a quarter is better.
    assert found.timing.output_start_cycles in (2, 3, 4)
    assert abs(found.errors.mean) < 1


def test_a_fold_is_fitted_to_the_others_alone() -> None:
    _scipy()
    small, large = (next(m for m in _short() if m.accelerator == name and m.memory == "off") for name in ("ethos-u55-32", "ethos-u55-256"))
    others = tuple(replace(m, name=f"{m.name} again") for m in (small, large))
    slow = _as_if((small, others[0]), TimingParameters(decoder_cycles_per_channel=8))
    fast = _as_if((large, others[1]), DEFAULT_TIMING)
    folds = leave_out(slow + fast, fitted_parameters(("decoder_cycles_per_channel",)), Evaluator(), by_accelerator, DEFAULT_TIMING)
    assert [(fold.left_out, fold.values) for fold in folds] == [
        ("ethos-u55-32", (("decoder_cycles_per_channel", "4"),)),
        ("ethos-u55-256", (("decoder_cycles_per_channel", "8"),)),
    ]


def test_a_fold_scores_only_what_its_fit_has_not_seen() -> None:
    _scipy()
    # One accelerator was "measured" on another NPU: the folds that see it disagree with the one that does not.
    slow = TimingParameters(decoder_cycles_per_channel=6)
    measurements = tuple(_as_if((m,), slow if m.accelerator == "ethos-u55-32" else DEFAULT_TIMING)[0] for m in _short())
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
    _scipy()
    honest = _as_if(_short(), TimingParameters(decoder_cycles_per_channel=5))
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
    _scipy()
    measurements = _short()
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
        calibrate_fit(_short(), name="n", date="d", tools=TOOLS, progress=replays.append)
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
    _scipy()
    with pytest.raises(InputError, match="2 measurements are too few to fit 2 parameters: give 3 or more"):
        fit(_short()[:2], fitted_parameters(("grant", "lookahead")), Evaluator())


# The profile


def _profile() -> CalibrationProfile:
    return CalibrationProfile(
        name='a "quoted" chip \\ \x7f é\n',
        date="2026-11-21",
        seed=3,
        tools=(("npu-testbed", "0.1"), ("scipy", "1.17")),
        timing=TimingParameters(output_scale=Fraction(61, 60), blockdep=BlockdepRule.IGNORED, shram_drains=False),
        errors=ErrorFigures(0.02, -0.05, 0.01, 0.03, 0.005, 0.015),
        fitted=(FittedValue("output_scale", "61/60", "1", "3/4", "5/4", 1.0, 1.03),),
        folds=(FoldErrors("network", "a", 2, 0.01, -0.02), FoldErrors("network", "b", 6, 0.03, 0.04)),
        points=(FittedPoint("a ethos-u55-128 off", "00", 100, 101, "board 7"),),
    )


def test_a_profile_reads_back_as_it_was_written() -> None:
    assert from_toml(to_toml(_profile())) == _profile()


def test_held_out_errors_weigh_folds_by_their_measurements() -> None:
    assert _profile().held_out("network") == Errors(8, pytest.approx(0.025), 0.04)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema = 1", "schema = 2", "has schema 2: schema 1 is read"),
        ("seed = 3", "seed = 'x'", "has seed = x: a value of type int is needed"),
        ("seed = 3\n", "", "has no seed"),
        ("grant = 8", "grant = 0", "grant is 0: it ranges from 1 to 1024"),
        ("grant = 8", "speed = 8", "'speed' is unknown: the parameters are"),
        ('"61/60"', '"1/0"', "output_scale is '1/0': write a ratio"),
        ('"ignored"', '"off"', "blockdep is 'off': choose honoured, ignored, drained"),
        ("mean = 0.01", "mean = true", "errors.mean = True: a value of type float is needed"),
        ("count = 2", "number = 2", "unknown key folds.number"),
        ("[timing]", "[timing", "is not TOML"),
        ("[errors]", "[mistakes]", "has no table errors"),
    ],
)
def test_a_damaged_profile_is_one_sentence(old: str, new: str, message: str) -> None:
    text = to_toml(_profile())
    assert old in text
    with pytest.raises(InputError) as error:
        from_toml(text.replace(old, new, 1))
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


def _refused(text: str) -> bool:
    try:
        from_toml(text)
    except InputError:
        return True
    return False


def test_truncated_profiles_never_end_in_a_traceback() -> None:
    text = to_toml(_profile())
    assert sum(_refused(text[:end]) for end in range(0, len(text), 7)) > 100


def test_a_timing_table_may_name_only_what_it_changes() -> None:
    assert timing_from_table({"grant": 4}) == TimingParameters(grant=4)
    assert timing_from_table({"output_scale": 1.25}).output_scale == Fraction(5, 4)


def test_a_check_finds_the_points_whose_cycles_are_no_longer_the_recorded_ones() -> None:
    measurement = _short()[0]
    cycles = Evaluator().cycles(measurement, DEFAULT_TIMING)
    point = FittedPoint(measurement.name, measurement.sha256, measurement.active, cycles, "")
    kept = replace(_profile(), timing=DEFAULT_TIMING, points=(point,), folds=())
    check = calibrate_check(kept, [measurement])
    assert (check.passed, check.drifted, check.points[0].error) == (True, (), check.points[0].default_error)
    drifted = calibrate_check(replace(kept, points=(replace(point, cycles=cycles + 1),)), [measurement])
    assert not drifted.passed
    assert len(drifted.drifted) == 1
    assert "MISSED" in check_tables(drifted)[0].text()
    assert not calibrate_check(replace(kept, folds=(FoldErrors("network", "a", 1, 0.016, 0.016),)), [measurement]).passed
    with pytest.raises(InputError, match="0 measurements to check"):
        calibrate_check(kept, [])


def test_a_check_sets_the_measured_beats_beside_ours() -> None:
    measured = [m for m in _short() if m.memory == "u55_high_end"]
    check = calibrate_check(replace(_profile(), timing=DEFAULT_TIMING), measured)
    assert [(beats.port, beats.ours) for point in check.points for beats in point.beats] == [beats for m in measured for beats in m.beats]
    assert "AXI1_RD_DATA_BEAT_RECEIVED" in check_tables(check)[2].text()
    assert len(check_tables(calibrate_check(_profile(), [m for m in _short() if m.memory == "off"][:1]))) == 2


def test_the_tables_show_the_errors_in_sample_and_held_out() -> None:
    text = "\n".join(table.text() for table in fit_tables(_profile()))
    for cell in ("61/60", "1.00 %", "leave one network out", "2.50 %", "board"):
        assert (cell in text) == (cell != "board")


# A user's measurements


HEADER = "model,NPU_ACTIVE,timing_adapter,AXI0_RD_DATA_BEAT_RECEIVED,network,use,source\n"


def _folder(tmp_path: Path) -> Path:
    stream = shared_data() / "fvp" / "streams" / "rnnoise_INT8.ethos-u55-128.vela500.tflite"
    (tmp_path / "net.tflite").write_bytes(stream.read_bytes())
    return tmp_path


def _csv(folder: Path, text: str) -> Path:
    path = folder / "chip.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_csv_of_a_users_chip_is_read_with_its_models_and_memory_systems(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    lines = "net.tflite,105087,u55_high_end,542,,,board 7\nnet.tflite,19692,off,,denoiser,test,\n"
    first, second = read_measurements(_csv(folder, "\ufeff" + HEADER + lines))
    assert (first.name, first.active, first.calibrates) == ("net ethos-u55-128 u55_high_end", 105087, True)
    assert first.beats == (("AXI0_RD_DATA_BEAT_RECEIVED", 542),)
    assert first.system == profile("u55_high_end").memory_system()
    assert first.programs == read_compiled((folder / "net.tflite").read_bytes()).programs
    assert (second.network, second.calibrates, second.beats) == ("denoiser", False, ())
    reference = next(m for m in _short() if m.name == "rnnoise_INT8 ethos-u55-128 u55_high_end")
    assert first.sha256 == reference.sha256
    assert Evaluator().cycles(first, DEFAULT_TIMING) == Evaluator().cycles(reference, DEFAULT_TIMING)


def test_a_users_chip_may_be_described_by_a_timing_adapter_or_a_vela_ini_file(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "slow.toml").write_text(
        "clock_hz = 100000000\nburst_bytes = 64\nshared_data_path = false\n"
        '[memory_mode]\nconst_mem_area = "Axi1"\narena_mem_area = "Axi0"\ncache_mem_area = "Axi0"\n'
        "[sram]\nMAXR = 2\nMAXW = 2\nRLATENCY = 9\nWLATENCY = 9\nPULSE_ON = 1\nPULSE_OFF = 0\nBWCAP = 0\n"
        "[ext]\nMAXR = 2\nMAXW = 0\nRLATENCY = 99\nWLATENCY = 0\nPULSE_ON = 1\nPULSE_OFF = 0\nBWCAP = 0\n",
        encoding="utf-8",
    )
    (folder / "chip.ini").write_text(
        "[System_Config.Ethos_U55_Mine]\ncore_clock=100e6\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1.0\nSram_burst_length=32\nSram_read_latency=32\nSram_write_latency=32\n"
        "OffChipFlash_clock_scale=0.125\nOffChipFlash_burst_length=128\nOffChipFlash_read_latency=64\nOffChipFlash_write_latency=64\n"
        "[Memory_Mode.Mine]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n",
        encoding="utf-8",
    )
    header = "model,NPU_ACTIVE,timing_adapter,config,system_config,memory_mode\n"
    lines = "net.tflite,1000,slow.toml,,,\nnet.tflite,1000,,chip.ini,Ethos_U55_Mine,Mine\n"
    slow, mine = read_measurements(_csv(folder, header + lines))
    assert slow.system.ports[1].read_latency == 99
    assert slow.memory == "slow"
    assert mine.system.clock_hz == 100_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "have no column model"),
        ("model,NPU_ACTIVE\n", "have 0 lines"),
        ("model,cycles\n", "have no column NPU_ACTIVE"),
        ("model,NPU_ACTIVE,speed\n", "unknown column 'speed'"),
        (HEADER + "net.tflite,12.5,off\n", "Line 2 of chip.csv has NPU_ACTIVE '12.5': a whole number from 1 to"),
        (HEADER + "net.tflite,0,off\n", "NPU_ACTIVE '0'"),
        (HEADER + "net.tflite,,off\n", "NPU_ACTIVE ''"),
        (HEADER + f"net.tflite,{1 << 48},off\n", "a whole number from 1 to 281474976710655"),
        (HEADER + "net.tflite,7,off,-1\n", "AXI0_RD_DATA_BEAT_RECEIVED '-1'"),
        (HEADER + ",7,off\n", "has no model"),
        (HEADER + "absent.tflite,7,off\n", "absent.tflite' cannot be read"),
        (HEADER + "net.tflite,7,\n", "names no memory system"),
        (HEADER + "net.tflite,7,fast\n", "timing_adapter 'fast': choose off, u55_high_end, or give a .toml file"),
        (HEADER + "net.tflite,7,fast.toml\n", "cannot be read"),
        (HEADER + "chip.csv,7,off\n", ""),
        (HEADER + "net.tflite,7,off,,,maybe\n", "has use 'maybe': write calibrate or test"),
        (HEADER + "net.tflite,7,off,,,,,,\n", "more cells than the header"),
        (HEADER + "net.tflite,7,off\nnet.tflite,8,off\n", "'net ethos-u55-128 off' is there twice"),
        ("\0", "have no column model"),
    ],
)
def test_a_wrong_line_of_a_users_csv_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_measurements(_csv(_folder(tmp_path), text))
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


# The shipped profile and its page


def test_the_shipped_profile_was_fitted_to_the_published_points_and_says_so() -> None:
    shipped = reference_profile()
    assert [(point.name, point.sha256, point.npu_active) for point in shipped.points] == [
        (m.name, m.sha256, m.active) for m in reference_measurements()
    ]
    assert all(point.source for point in shipped.points)
    assert {fold.left_out for fold in shipped.folds} == {m.network for m in reference_measurements()} | {
        m.accelerator for m in reference_measurements()
    }
    assert shipped.held_out("network").mean <= 1.5 * shipped.errors.mean


def test_the_page_shows_the_shipped_profile_and_names_every_parameter_and_column() -> None:
    page = (Path(__file__).parents[1] / "docs" / "calibration.md").read_text(encoding="utf-8")
    for table in fit_tables(reference_profile())[:3]:
        for line in table.markdown().splitlines():
            assert not line.startswith("|") or line in page
    for name in (*(parameter.name for parameter in PARAMETERS), *COLUMNS):
        assert f"`{name}`" in page
