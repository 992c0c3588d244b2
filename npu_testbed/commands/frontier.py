"""``npu-testbed frontier``: every schedule of a network that is worth having, from the smallest to the fastest."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_model_argument,
    add_recompute_option,
    add_report_option,
    add_settings_option,
    add_spill_option,
    add_timing_option,
    add_vela_timeout_option,
    example,
    positive_count,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes.frontier import FrontierOutcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "frontier",
        help="find all schedules that no other one beats in SRAM and cycles",
        description=(
            "Find the Pareto frontier of a network: cascaded schedules from the one that needs least SRAM to the fastest, each replayed."
        ),
        epilog=example(
            "npu-testbed frontier zoo:ds_cnn",
            "npu-testbed frontier network.tflite -o frontier.json --plot frontier.svg --schedules points",
        ),
    )
    add_model_argument(parser)
    parser.add_argument("-o", "--output", metavar="F.json", help="write the frontier as JSON")
    parser.add_argument("--plot", metavar="F.svg", help="draw the frontier")
    add_home_option(parser)
    add_spill_option(parser)
    add_report_option(parser)
    parser.add_argument(
        "--with-vela", action="store_true", help="Vela's points, too, in the picture and the report, as `npu-testbed compare` finds them"
    )
    parser.add_argument(
        "--schedules",
        metavar="DIR",
        help=(
            "write every point's schedule file into this folder, named by its bytes, the best so far while the search goes on; "
            "the same command goes on from a folder that was left before the end"
        ),
    )
    parser.add_argument(
        "--rungs", metavar="N", type=positive_count, help="memory limits that are tried per layout (default: those of the search)"
    )
    add_accelerator_option(parser, "ethos-u55-128")
    add_memory_options(parser, "the timing adapter u55_high_end")
    add_settings_option(parser)
    add_timing_option(parser)
    add_recompute_option(parser)
    add_jobs_option(parser)
    add_input_shape_option(parser)
    add_vela_timeout_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def answer(arguments: argparse.Namespace, show: Progress) -> FrontierOutcome:
    """Find the frontier, and write what is asked for."""
    from npu_testbed.commands.choices import arena_bound
    from npu_testbed.files import require_folder, require_page, require_picture, require_writable, write_files
    from npu_testbed.html.pages import frontier_page

    if arguments.with_vela and arguments.plot is None and arguments.report is None:
        raise InputError("--with-vela was given without --plot or --report: it adds Vela's points to them, name a file.")
    if arguments.output is not None:
        require_writable(arguments.output, arguments.model)
    if arguments.plot is not None:
        require_picture(arguments.plot, arguments.model)
    if arguments.report is not None:
        require_page(arguments.report, arguments.model)
    if arguments.schedules is not None:
        require_folder(arguments.schedules)
    arena_bound(arguments)
    outcome = _find(arguments, show)
    files: dict[Path, bytes] = {}
    if arguments.output is not None:
        files[Path(arguments.output)] = outcome.to_json().encode("ascii")
    if arguments.plot is not None:
        files[Path(arguments.plot)] = outcome.svg().encode("utf-8")
    if arguments.report is not None:
        vela = () if outcome.comparison is None else outcome.comparison.points
        files[Path(arguments.report)] = frontier_page(outcome.frontier, vela, show)
    write_files(files)
    return outcome


def _find(arguments: argparse.Namespace, show: Progress) -> FrontierOutcome:
    """The frontier, with Vela's points if they are asked for."""
    from npu_testbed.commands.choices import home_options, memory_options
    from npu_testbed.comparisons.comparison import compare
    from npu_testbed.frontiers import frontier
    from npu_testbed.outcomes.frontier import FrontierOutcome
    from npu_testbed.timing import load_timing

    options = {
        "rungs": arguments.rungs,
        "memory": memory_options(arguments),
        "timing": load_timing(arguments.timing),
        "recompute": arguments.recompute,
        "processes": arguments.jobs,
        "progress": show,
    }
    folder = None if arguments.schedules is None else Path(arguments.schedules)
    homes = home_options(arguments)
    if arguments.spill is not None and arguments.with_vela:
        raise InputError("--with-vela was given together with --spill: Vela moves no tensor to another memory; drop one of them.")
    if arguments.with_vela:
        comparison = compare(arguments.model, arguments.accelerator_config, homes=homes, schedules=folder, **options)
        return FrontierOutcome(comparison.frontier, comparison)
    found = frontier(arguments.model, arguments.accelerator_config, homes=homes, spill=arguments.spill, schedules=folder, **options)
    return FrontierOutcome(found)
