"""``npu-testbed frontier``: every schedule of a network that is worth having, from the smallest to the fastest."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_report_option,
    add_settings_option,
    add_timing_option,
    add_vela_timeout_option,
    example,
    positive_count,
    print_json,
)

if TYPE_CHECKING:
    from npu_testbed.frontier import Frontier


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
    parser.add_argument(
        "model", metavar="MODEL", help="a .tflite file, or zoo:NAME or portfolio:NAME for a network that the package builds"
    )
    parser.add_argument("-o", "--output", metavar="F.json", help="write the frontier as JSON")
    parser.add_argument("--plot", metavar="F.svg", help="draw the frontier")
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
    add_jobs_option(parser)
    add_vela_timeout_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, write and print the frontier."""
    from npu_testbed.commands.choices import arena_bound
    from npu_testbed.commands.options import json_text
    from npu_testbed.files import require_folder, require_page, require_picture, require_writable, write_files
    from npu_testbed.reports.frontier import frontier_json, frontier_text

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
    found, picture, page = _find(arguments)
    document = frontier_json(found)
    files: dict[Path, bytes] = {}
    if arguments.output is not None:
        files[Path(arguments.output)] = json_text("frontier", document).encode("ascii")
    if arguments.plot is not None:
        files[Path(arguments.plot)] = picture.encode("utf-8")
    if arguments.report is not None:
        files[Path(arguments.report)] = page
    write_files(files)
    if arguments.json:
        print_json("frontier", document)
    else:
        print(frontier_text(found))
    return 0


def _find(arguments: argparse.Namespace) -> tuple[Frontier, str, bytes]:
    """The frontier, the picture of it, and the report on it, empty if it is not asked for."""
    from npu_testbed.commands.choices import memory_options
    from npu_testbed.compare.comparison import compare
    from npu_testbed.frontier import frontier
    from npu_testbed.html.pages import frontier_page
    from npu_testbed.progress import progress
    from npu_testbed.timing import load_timing
    from npu_testbed.views.frontier_plot import comparison_svg, frontier_svg

    with progress() as show:
        options = {
            "rungs": arguments.rungs,
            "memory": memory_options(arguments),
            "timing": load_timing(arguments.timing),
            "processes": arguments.jobs,
            "progress": show,
        }
        folder = None if arguments.schedules is None else Path(arguments.schedules)
        if arguments.with_vela:
            comparison = compare(arguments.model, arguments.accelerator_config, schedules=folder, **options)
            found, picture, vela = comparison.frontier, comparison_svg(comparison), comparison.points
        else:
            found, vela = frontier(arguments.model, arguments.accelerator_config, schedules=folder, **options), ()
            picture = frontier_svg(found)
        return found, picture, b"" if arguments.report is None else frontier_page(found, vela, show)
