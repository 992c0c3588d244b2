"""``npu-testbed compare``: our schedules of a network beside Vela's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_cpu_option,
    add_energy_option,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_layer_options,
    add_memory_options,
    add_recompute_option,
    add_report_option,
    add_results_option,
    add_settings_option,
    add_timing_option,
    add_vela_timeout_option,
    example,
    min_percent,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes.comparison import ComparisonOutcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "compare",
        help="compare the frontier of a network with Vela's schedules",
        description=(
            "Compare the frontier of a network with Vela Size, Vela Performance and Vela at the same arena sizes, on both of Vela's cores; "
            "one simulator replays them all."
        ),
        epilog=example(
            "npu-testbed compare zoo:resnet8",
            "npu-testbed compare network.tflite --plot network.svg --json",
            "npu-testbed compare zoo:resnet8 zoo:ds_cnn --markdown --results found",
            "npu-testbed compare network.tflite --home input=ext --home output=ext",
        ),
    )
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="+",
        help="a .tflite file, or zoo:NAME or portfolio:NAME for a network that the package builds; several give a summary",
    )
    parser.add_argument("--plot", metavar="F.svg", help="draw our frontier with Vela's points; for one MODEL")
    parser.add_argument(
        "--schedules",
        metavar="DIR",
        help=(
            "write our frontier's schedule files into this folder, the best so far while the search goes on; the same command goes on from "
            "a folder that was left before the end; for one MODEL"
        ),
    )
    add_results_option(parser)
    parser.add_argument("--markdown", action="store_true", help="print the summary as a section of a Markdown page")
    add_accelerator_option(parser, "ethos-u55-128")
    add_memory_options(parser, "the timing adapter u55_high_end, and Vela's defaults for its own decisions")
    add_settings_option(parser)
    add_timing_option(parser)
    add_home_option(parser)
    add_recompute_option(parser)
    parser.add_argument(
        "--robust",
        action="store_true",
        help="replay both sides under every change of the timing model that public data cannot exclude: which answers hold?",
    )
    add_energy_option(parser, "also the ratio of energies, ours to Vela's; for one MODEL")
    add_jobs_option(parser)
    add_input_shape_option(parser)
    add_vela_timeout_option(parser)
    add_layer_options(parser.add_argument_group("layers", "Of our schedule at Vela Performance's bytes or fewer; for one MODEL."))
    add_report_option(parser)
    add_cpu_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def answer(arguments: argparse.Namespace, show: Progress) -> ComparisonOutcome:
    """Compare, and write what is asked for."""
    from msgspec.structs import replace

    from npu_testbed.commands.choices import arena_bound, home_options, memory_options
    from npu_testbed.comparisons.comparison import compare
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.energy import load_energy_table
    from npu_testbed.files import require_picture, write_files
    from npu_testbed.findings import findings
    from npu_testbed.html.pages import comparison_page
    from npu_testbed.html.recorder import TimelineEvents
    from npu_testbed.outcomes.comparison import ComparisonOutcome
    from npu_testbed.pipeline import simulate_schedule
    from npu_testbed.reports.tables import layers_csv
    from npu_testbed.timing import load_timing
    from npu_testbed.views.frontier_plot import comparison_svg

    if arguments.plot is not None:
        if len(arguments.models) > 1:
            raise InputError(f"--plot was given with {len(arguments.models)} models: a picture shows one, compare them one by one.")
        require_picture(arguments.plot, *arguments.models)
    if arguments.schedules is not None and len(arguments.models) > 1:
        raise InputError(f"--schedules was given with {len(arguments.models)} models: a folder is for one, compare them one by one.")
    _check_layers(arguments)
    cpu = load_cpu_table(arguments.cpu)
    events = TimelineEvents()
    if arguments.markdown and arguments.json:
        raise InputError("--markdown was given together with --json: both are ways to print the result, choose one.")
    arena_bound(arguments)
    timing, homes = load_timing(arguments.timing), home_options(arguments)
    energy = None if arguments.energy is None else load_energy_table(arguments.energy)
    comparisons = [
        compare(
            model,
            arguments.accelerator_config,
            memory=memory_options(arguments),
            timing=timing,
            homes=homes,
            recompute=arguments.recompute,
            processes=arguments.jobs,
            progress=show,
            results=arguments.results,
            schedules=None if arguments.schedules is None else Path(arguments.schedules),
            robust=arguments.robust,
            energy=energy,
        )
        for model in arguments.models
    ]
    simulation = None
    # A section of a page has the summary alone: layers are replayed only for a file that shows them.
    if len(comparisons) == 1 and (not arguments.markdown or arguments.csv is not None or arguments.report is not None):
        listeners = [events] if arguments.report is not None else []
        simulation = replace(simulate_schedule(comparisons[0].chosen.schedule, listeners=listeners, progress=show), cpu=cpu)
    no_advice = arguments.no_advice or (arguments.markdown and arguments.report is None)
    found = None if simulation is None or no_advice else findings(simulation, show, comparisons[0].performance.memory)
    files: dict[Path, bytes] = {}
    if simulation is not None and arguments.report is not None:
        files[Path(arguments.report)] = comparison_page(comparisons[0], simulation, events, found)
    if arguments.plot is not None:
        files[Path(arguments.plot)] = comparison_svg(comparisons[0]).encode("utf-8")
    if simulation is not None and arguments.csv is not None:
        files[Path(arguments.csv)] = layers_csv(simulation.replay)
    write_files(files)
    return ComparisonOutcome(tuple(comparisons), simulation, found, min_percent(arguments), arguments.markdown, cpu)


def _check_layers(arguments: argparse.Namespace) -> None:
    """InputError for options on the layers that cannot be followed."""
    from npu_testbed.files import require_page, require_writable

    min_percent(arguments)
    if arguments.csv is not None:
        require_writable(arguments.csv, *arguments.models)
    if arguments.report is not None:
        require_page(arguments.report, *arguments.models)
    if len(arguments.models) == 1:
        return
    given = {"--csv": arguments.csv, "--min-percent": arguments.min_percent, "--no-advice": arguments.no_advice or None}
    given |= {"--report": arguments.report, "--energy": arguments.energy}
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option} was given with {len(arguments.models)} models: it is for one, compare them one by one.")
