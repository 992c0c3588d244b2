"""``npu-testbed calibrate``: timing parameters fitted to measurements, and a fitted profile checked against them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import Parser, add_json_option, example
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress
    from validation.calibrate import Measurement

_MEASUREMENTS = (
    "CSV file with the columns model (a *_vela.tflite), NPU_ACTIVE, and timing_adapter or config, system_config and memory_mode "
    "(default: the published points of the FVP)"
)


def add(commands: Any) -> None:
    """Add the command's parser with its two subcommands."""
    parser: Parser = commands.add_parser(
        "calibrate",
        help="fit the timing model to measurements",
        description="Fit the timing parameters to measurements, such as those of a chip of your own, or check a fit.",
        epilog=example("npu-testbed calibrate fit chip.csv -o chip.toml", "npu-testbed calibrate check chip.toml chip.csv"),
    )
    tasks = parser.add_subparsers(title="tasks", dest="task", metavar="TASK", required=True)
    _add_fit(tasks)
    _add_check(tasks)


def _add_fit(tasks: Any) -> None:
    parser: Parser = tasks.add_parser(
        "fit",
        help="fit timing parameters",
        description=(
            "Fit 1 to 3 timing parameters to measurements and write them as a profile, with its errors in sample, on networks and "
            "accelerators left out, and bootstrap intervals (extra 'calibrate')."
        ),
        epilog=example("npu-testbed calibrate fit chip.csv -o chip.toml --parameter kernel_start_cycles --parameter output_scale"),
    )
    parser.add_argument("measurements", metavar="MEASUREMENTS.csv", nargs="?", type=Path, help=_MEASUREMENTS)
    parser.add_argument("-o", "--output", metavar="PROFILE.toml", required=True, help="the profile to write")
    parser.add_argument(
        "--parameter",
        metavar="NAME",
        action="append",
        help="a parameter to fit; may be repeated (default: kernel_start_cycles, output_start_cycles and output_scale)",
    )
    parser.add_argument("--seed", metavar="N", type=_seed, default=1, help="seed of the bootstrap (default: 1)")
    parser.add_argument("--name", metavar="TEXT", help="name of the profile (default: the output's, without its ending)")
    parser.add_argument("--date", metavar="YYYY-MM-DD", type=_date, help="date that the profile records (default: today, UTC)")
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer_fit))


def _add_check(tasks: Any) -> None:
    parser: Parser = tasks.add_parser(
        "check",
        help="replay measurements under a profile",
        description=(
            "Replay measurements with a profile's parameters and with the default ones. Status 1 if the profile's own cycles are no longer "
            "reproduced, or its error on networks left out is more than 1.5 times its error in sample."
        ),
        epilog=example("npu-testbed calibrate check", "npu-testbed calibrate check chip.toml chip.csv --json"),
    )
    parser.add_argument(
        "profile", metavar="PROFILE.toml", nargs="?", help="a profile that calibrate fit wrote (default: the built-in fit to the FVP)"
    )
    parser.add_argument("measurements", metavar="MEASUREMENTS.csv", nargs="?", type=Path, help=_MEASUREMENTS)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer_check))


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10) or not int(text) < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 0 to 4294967295")
    return int(text)


def _date(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no date, give one such as 2026-01-31") from None


def _measurements(path: Path | None) -> tuple[Measurement, ...]:
    from validation.calibrate import read_measurements, reference_measurements

    return reference_measurements() if path is None else read_measurements(path)


def _today() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).date().isoformat()


def answer_fit(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Fit, and write the profile."""
    from npu_testbed.calibration import fit_tools, profile_json, source_files
    from npu_testbed.documents.calibration import CalibrateFitDocument
    from npu_testbed.files import require_writable, write_file
    from npu_testbed.outcomes import PlainOutcome
    from validation.calibrate import calibrate_fit, fit_tables, to_toml
    from validation.calibrate.parameters import DEFAULT_FITTED

    show("Reading measurements")
    measurements = _measurements(arguments.measurements)
    require_writable(arguments.output, *source_files(arguments.measurements))
    profile = calibrate_fit(
        measurements,
        name=Path(arguments.output).stem if arguments.name is None else arguments.name,
        date=arguments.date or _today(),
        tools=fit_tools(),
        parameters=tuple(arguments.parameter or DEFAULT_FITTED),
        seed=arguments.seed,
        progress=lambda replays: show(f"Fitting: {replays} replays"),
    )
    write_file(arguments.output, to_toml(profile).encode())
    return PlainOutcome(
        "calibrate fit",
        profile,
        lambda: CalibrateFitDocument(profile_json(profile), arguments.output),
        lambda: "\n\n".join([*(table.text() for table in fit_tables(profile)), f"Profile: {arguments.output}"]),
    )


def answer_check(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Replay; status 1 if the profile does not hold."""
    from msgspec import to_builtins

    from npu_testbed.documents.calibration import CalibrateCheckDocument
    from npu_testbed.documents.document import checked
    from npu_testbed.outcomes import PlainOutcome
    from validation.calibrate import calibrate_check, check_tables, from_toml, reference_profile
    from validation.reading import read_configuration

    show("Reading")
    profile = reference_profile() if arguments.profile is None else from_toml(read_configuration(arguments.profile, "Calibration profile"))
    check = calibrate_check(profile, _measurements(arguments.measurements), lambda replays: show(f"Checking: {replays} replays"))

    def document() -> CalibrateCheckDocument:
        points = [to_builtins(p) | {"error": p.error, "default_error": p.default_error} for p in check.points]
        facts = {
            "profile": profile.name,
            "passed": check.passed,
            "generalises": check.generalises,
            "drifted": [point.name for point in check.drifted],
            "seen": to_builtins(check.seen),
            "unseen": to_builtins(check.unseen),
            "points": points,
        }
        return checked(CalibrateCheckDocument, facts)

    return PlainOutcome(
        "calibrate check", check, document, lambda: "\n\n".join(table.text() for table in check_tables(check)), passed=check.passed
    )
