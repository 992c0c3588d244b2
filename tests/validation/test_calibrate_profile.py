"""A calibration's profile: its file, the check of its points, and the one that is shipped."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from calibrations import short_measurements
from msgspec.structs import replace

from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from validation.calibrate import (
    CalibrationProfile,
    calibrate_check,
    check_tables,
    fit_tables,
    from_toml,
    reference_measurements,
    reference_profile,
    timing_from_table,
    to_toml,
)
from validation.calibrate.evaluation import Errors, Evaluator
from validation.calibrate.measurements import COLUMNS
from validation.calibrate.parameters import PARAMETERS
from validation.calibrate.profile import ErrorFigures, FittedPoint, FittedValue, FoldErrors


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
        ("seed = 3", "seed = 'x'", "has 'x' at seed where an integer between"),
        ("seed = 3\n", "", "at its top where the key 'seed' is needed"),
        ("grant = 8", "grant = 0", "grant is 0: it ranges from 1 to 1024"),
        ("grant = 8", "speed = 8", "'speed' is unknown: the parameters are"),
        ('"61/60"', '"1/0"', "output_scale is '1/0': write a ratio"),
        ('"ignored"', '"off"', "blockdep is 'off': choose honoured, ignored, drained"),
        ("mean = 0.01", "mean = true", "has True at errors.mean where a number is needed"),
        ("count = 2", "number = 2", "has 'number' at folds[0] where one of the keys kind, left_out, count"),
        ("[timing]", "[timing", "is not TOML"),
        ("[errors]", "[mistakes]", "at its top where the key 'errors' is needed: write the profile again with calibrate fit"),
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
    measurement = short_measurements()[0]
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
    measured = [m for m in short_measurements() if m.memory == "u55_high_end"]
    check = calibrate_check(replace(_profile(), timing=DEFAULT_TIMING), measured)
    assert [(beats.port, beats.ours) for point in check.points for beats in point.beats] == [beats for m in measured for beats in m.beats]
    assert "AXI1_RD_DATA_BEAT_RECEIVED" in check_tables(check)[2].text()
    assert len(check_tables(calibrate_check(_profile(), [m for m in short_measurements() if m.memory == "off"][:1]))) == 2


def test_the_tables_show_the_errors_in_sample_and_held_out() -> None:
    text = "\n".join(table.text() for table in fit_tables(_profile()))
    for cell in ("61/60", "1.00 %", "leave one network out", "2.50 %", "board"):
        assert (cell in text) == (cell != "board")


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
    page = (Path(__file__).parents[2] / "docs" / "board.md").read_text(encoding="utf-8")
    for table in fit_tables(reference_profile())[:3]:
        for line in table.markdown().splitlines():
            assert not line.startswith("|") or line in page
    for name in (*(parameter.name for parameter in PARAMETERS), *COLUMNS):
        assert f"`{name}`" in page
