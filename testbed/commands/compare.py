"""``npu-testbed compare``: our schedules of a network beside Vela's."""

from __future__ import annotations

import argparse
from typing import Any

from testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    example,
    print_json,
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "compare",
        help="compare the frontier of a network with Vela's schedules",
        description=(
            "Compare the frontier of a network with Vela Size, Vela Performance and Vela at the same arena sizes, on both of Vela's cores; "
            "one simulator replays them all."
        ),
        epilog=example("npu-testbed compare zoo:resnet8", "npu-testbed compare network.tflite --plot network.svg --json"),
    )
    parser.add_argument("model", metavar="MODEL", help="a .tflite file, or zoo:NAME for a network that the package builds")
    parser.add_argument("--plot", metavar="F.svg", help="draw our frontier with Vela's points")
    add_accelerator_option(parser, "ethos-u55-128")
    add_memory_options(parser, "the timing adapter u55_high_end, and Vela's defaults for its own decisions")
    add_jobs_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, draw and print."""
    from testbed.commands.choices import memory_options
    from testbed.compare import compare
    from testbed.compare_report import comparison_json, comparison_text
    from testbed.files import require_writable, write_file
    from testbed.progress import progress
    from testbed.views.frontier_plot import comparison_svg

    if arguments.plot is not None:
        require_writable(arguments.plot, arguments.model)
    with progress() as show:
        comparison = compare(
            arguments.model,
            arguments.accelerator_config,
            memory=memory_options(arguments),
            processes=arguments.jobs,
            progress=show,
        )
    if arguments.plot is not None:
        write_file(arguments.plot, comparison_svg(comparison).encode("utf-8"))
    if arguments.json:
        print_json("compare", comparison_json(comparison))
    else:
        print(comparison_text(comparison))
    return 0
