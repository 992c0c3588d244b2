"""``npu-testbed calibrate``: timing parameters fitted to measurements, and a fitted profile checked against them."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import Option
from npu_testbed.asked.readers import seed_number

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.calibration import CalibrateCheckOutcome, CalibrateFitOutcome
    from validation.calibrate import Measurement

_MEASUREMENTS = (
    "CSV file with the columns model (a *_vela.tflite), NPU_ACTIVE, and timing_adapter or config, system_config and memory_mode "
    "(default: the published points of the FVP)"
)


def _date(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a date, give one such as 2026-01-31") from None


def _measurements(path: "kinds.PathText | None") -> "tuple[Measurement, ...]":
    from validation.calibrate import read_measurements, reference_measurements

    return reference_measurements() if path is None else read_measurements(Path(path))


def _today() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).date().isoformat()


class CalibrateFitOptions(Ask["CalibrateFitOutcome"], frozen=True, kw_only=True):
    """The options of ``calibrate fit``."""

    output: Annotated[kinds.PathText | None, Option("the profile to write", "PROFILE.toml", named=("-o",), needed=True)] = None
    parameter: Annotated[
        str | Sequence[str],
        Option(
            "a parameter to fit; may be repeated (default: kernel_start_cycles, output_start_cycles and output_scale)", "NAME", many=True
        ),
    ] = ()
    seed: Annotated[int, Option("seed of the bootstrap (default: 1)", "N", seed_number)] = 1
    name: Annotated[str | None, Option("name of the profile (default: the output's, without its ending)", "TEXT")] = None
    date: Annotated[str | None, Option("date that the profile records (default: today, UTC)", "YYYY-MM-DD", _date)] = None


class CalibrateFit(CalibrateFitOptions, frozen=True):
    """Fit 1 to 3 timing parameters to measurements and write them as a profile.

    The profile has its errors in sample, on networks and accelerators left out, and bootstrap intervals (extra 'calibrate').
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed calibrate fit chip.csv -o chip.toml --parameter kernel_start_cycles --parameter output_scale",
    )

    measurements: Annotated[kinds.PathText | None, Option(_MEASUREMENTS, "MEASUREMENTS.csv", source=True)] = None

    def answer(self, show: "Progress") -> "CalibrateFitOutcome":
        """Fit, and write the profile."""
        from npu_testbed.ground.files import require_writable, write_file
        from npu_testbed.outcomes.calibration import CalibrateFitOutcome
        from npu_testbed.proofs.calibration import fit_tools, source_files
        from validation.calibrate import calibrate_fit, to_toml
        from validation.calibrate.parameters import DEFAULT_FITTED

        output, measured = str(self.output), None if self.measurements is None else Path(self.measurements)
        show("Reading measurements")
        measurements = _measurements(measured)
        require_writable(output, *source_files(measured))
        profile = calibrate_fit(
            measurements,
            name=Path(output).stem if self.name is None else self.name,
            date=self.date or _today(),
            tools=fit_tools(),
            parameters=kinds.texts(self.parameter or DEFAULT_FITTED),
            seed=self.seed,
            progress=lambda replays: show(f"Fitting: {replays} replays"),
        )
        write_file(output, to_toml(profile).encode())
        return CalibrateFitOutcome(profile, output)


class CalibrateCheck(Ask["CalibrateCheckOutcome"], frozen=True):
    """Replay measurements with a profile's parameters and with the default ones.

    Status 1 if the profile's own cycles are no longer reproduced, or its error on networks left out is more than 1.5 times its error in
    sample.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed calibrate check",
        "npu-testbed calibrate check chip.toml chip.csv --json",
    )

    profile: Annotated[
        kinds.PathText | None,
        Option("a profile that calibrate fit wrote (default: the built-in fit to the FVP)", "PROFILE.toml", source=True),
    ] = None
    measurements: Annotated[kinds.PathText | None, Option(_MEASUREMENTS, "MEASUREMENTS.csv", source=True)] = None

    def answer(self, show: "Progress") -> "CalibrateCheckOutcome":
        """Replay; status 1 if the profile does not hold."""
        from npu_testbed.outcomes.calibration import CalibrateCheckOutcome
        from validation.calibrate import calibrate_check, from_toml, reference_profile
        from validation.reading import read_configuration

        show("Reading")
        profile = reference_profile() if self.profile is None else from_toml(read_configuration(str(self.profile), "Calibration profile"))
        check = calibrate_check(profile, _measurements(self.measurements), lambda replays: show(f"Checking: {replays} replays"))
        return CalibrateCheckOutcome(profile.name, check)
