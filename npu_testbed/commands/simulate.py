"""``npu-testbed simulate``: replay a schedule of ours or of Vela's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_compilation_options,
    add_cpu_operations_option,
    add_cpu_option,
    add_home_option,
    add_json_option,
    add_layer_options,
    add_memory_options,
    add_report_option,
    add_settings_option,
    add_timing_option,
    cycle_count,
    example,
    min_percent,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.measured import Measured
    from npu_testbed.memory_options import MemoryOptions
    from npu_testbed.outcomes.replay import ReplayOutcome
    from npu_testbed.pipeline import Progress, Simulation
    from npu_testbed.views.arena_map import ArenaMap
    from sim import Listener
    from sim.views.timeline import TimelineRecorder

    Simulate = Callable[[MemoryOptions, Sequence[Listener]], tuple[Simulation, Callable[[], ArenaMap]]]
    """Replays what was asked for; the map of its arena is made by who wants it."""


_DIGITS = 40
"""Characters of a window of cycles."""

CHECKS = (
    "Refused are schedules that read bytes that nothing wrote, overwrite their own input, or whose weight streams cannot be decoded or\n"
    "hold another number of weights than the operation has. Warned of are bytes that no wait, BLOCKDEP or order of the queues\n"
    "guarantees. Not checked are values: whether a schedule computes its network is what `npu-testbed verify` says."
)
"""The checks of a replay, and those that it leaves out."""


def add(commands: Any) -> None:
    """Add the command's parser with its two subcommands."""
    parser: Parser = commands.add_parser(
        "simulate",
        help="replay a schedule on the simulated NPU",
        description=(
            "Replay a schedule operation by operation: cycles, peak SRAM, traffic per port, and the layers that take them.\n\n" + CHECKS
        ),
        epilog=example("npu-testbed simulate schedule mobilenet_v1.json", "npu-testbed simulate vela zoo:mobilenet_v1"),
    )
    kinds = parser.add_subparsers(title="schedules", dest="kind", metavar="SCHEDULE", required=True)
    _add_schedule(kinds)
    _add_vela(kinds)


def _add_schedule(kinds: Any) -> None:
    parser: Parser = kinds.add_parser(
        "schedule",
        help="replay a schedule file",
        description="Replay a schedule file.\n\n" + CHECKS,
        epilog=example("npu-testbed simulate schedule mobilenet_v1.json --trace mobilenet_v1.trace.json.gz --sram-map mobilenet_v1.svg"),
    )
    parser.add_argument("schedule", metavar="SCHEDULE.json", help="a file that `npu-testbed schedule` wrote")
    add_memory_options(parser, "the memory system that the schedule was made for")
    add_settings_option(parser)
    add_timing_option(parser, "that which the schedule was made for")
    _add_report_options(parser)
    parser.add_argument(
        "--stream",
        metavar="NAME=CYCLES_PER_ROW",
        help='also run the schedule while the rows of an input ("input": the only one) arrive in its home, cut into command streams',
    )
    parser.set_defaults(run=Printed(answer_schedule))


def _add_vela(kinds: Any) -> None:
    parser: Parser = kinds.add_parser(
        "vela",
        help="replay Vela's own schedule",
        description=(
            "Replay Vela's own schedule: of a compiled *_vela.tflite as it is, of any other network compiled with Vela first.\n\n" + CHECKS
        ),
        epilog=example(
            "npu-testbed simulate vela zoo:mobilenet_v1 --optimise Size",
            "npu-testbed simulate vela network_vela.tflite --timing-adapter off --stalls --sram-map network.svg",
        ),
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a *_vela.tflite, an ExecuTorch .pte, a C array of either, a .tflite to compile, zoo:NAME or portfolio:NAME",
    )
    add_compilation_options(parser)
    parser.add_argument(
        "--separate-io-regions", action="store_true", help="compile with regions of their own for inputs and outputs, outside the arena"
    )
    add_home_option(parser)
    add_memory_options(parser, "the timing adapter u55_high_end")
    add_settings_option(parser)
    add_timing_option(parser)
    _add_report_options(parser)
    parser.set_defaults(run=Printed(answer_vela))


def _add_report_options(parser: Parser) -> None:
    group = parser.add_argument_group("reports")
    group.add_argument("--stalls", action="store_true", help="also say what every unit's cycles went to: busy, waiting by cause, idle")
    add_layer_options(group)
    add_report_option(group)
    add_cpu_operations_option(group)
    add_cpu_option(group)
    group.add_argument("--sram-map", metavar="M.svg", help="draw what lies where in the arena, over the cycles")
    group.add_argument("--trace", metavar="T.json[.gz]", help="write a trace of every unit, which ui.perfetto.dev opens")
    group.add_argument(
        "--measured",
        metavar="M.csv",
        help=(
            "also set a measurement beside the replay: an FVP's PMU trace, a log of the evaluation kit or of ExecuTorch with the NPU's "
            "counters, QREAD samples, a CSV of layers, Vela's per-layer CSV, or the table of ExecuTorch's inspector"
        ),
    )
    group.add_argument(
        "--columns", metavar="layer=NAME,cycles=NAME", help="columns of --measured that hold layers and cycles, of a CSV of your own"
    )
    group.add_argument(
        "--measured-cycles", metavar="N", type=cycle_count, help="NPU ACTIVE of a measured inference, where the measurement counts none"
    )
    group.add_argument("--node-data", metavar="F.json", help="write the cycles by tensor name, which Model Explorer shows on the .tflite")
    group.add_argument(
        "--timeline",
        metavar="FIRST:LAST",
        nargs="?",
        const=":",
        type=_window,
        help="also draw what every unit did, as text: all cycles, or those from FIRST up to LAST",
    )
    group.add_argument(
        "--engine",
        choices=("fast", "simpy"),
        default="",
        help="what replays: the fast recurrence or the SimPy engine, equal to the cycle (default: fast, simpy for a trace or a timeline)",
    )
    add_json_option(group)


def _window(text: str) -> tuple[int, int | None]:
    """The cycles to draw: FIRST:LAST, of which either may be left out."""
    first, mark, last = text.partition(":")
    plain = (not first or (first.isascii() and first.isdecimal())) and (not last or (last.isascii() and last.isdecimal()))
    if not mark or not plain or len(text) > _DIGITS or (last and int(first or 0) >= int(last)):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no window of cycles, give FIRST:LAST with FIRST below LAST, such as 0:2000")
    return int(first or 0), int(last) if last else None


def answer_schedule(arguments: argparse.Namespace, show: Progress) -> ReplayOutcome:
    """Replay a schedule: a file, or one that is at hand."""
    from msgspec.structs import replace

    from npu_testbed.pipeline import VelaOptions, read_schedule, simulate_schedule
    from npu_testbed.streaming import stream_of, streamed_input
    from npu_testbed.timing import load_timing
    from npu_testbed.views.arena_map import arena_map

    stream = None if arguments.stream is None else stream_of(arguments.stream)

    def simulate(memory: MemoryOptions, listeners: Sequence[Listener]) -> tuple[Simulation, Callable[[], ArenaMap]]:
        show(f"Reading {arguments.schedule}")
        plan = read_schedule(arguments.schedule)
        VelaOptions(getattr(arguments, "accelerator_config", None), chip=arguments.chip).require_npu("The schedule", plan.accelerator)
        timing = None if arguments.timing is None else load_timing(arguments.timing)
        simulation = simulate_schedule(plan, memory, listeners, show, arguments.engine, timing)
        return simulation, lambda: arena_map(plan, simulation.replay)

    outcome = _answer(arguments, "schedule", arguments.schedule, simulate, show)
    if stream is None:
        return outcome
    replayed = outcome.simulation
    return replace(outcome, stream=streamed_input(read_schedule(arguments.schedule), *stream, replayed.system, replayed.timing))


def answer_vela(arguments: argparse.Namespace, show: Progress) -> ReplayOutcome:
    """Replay Vela's schedule."""
    from npu_testbed.commands.choices import home_options
    from npu_testbed.compiled_homes import homes_of, unsaid_homes
    from npu_testbed.endings import say
    from npu_testbed.pipeline import VelaOptions, simulate_vela
    from npu_testbed.timing import load_timing
    from npu_testbed.views.program_map import program_map

    separate = arguments.separate_io_regions or None
    options = VelaOptions(arguments.accelerator_config, arguments.optimise, arguments.arena_cache_size, separate, arguments.chip)
    homes = home_options(arguments)

    def simulate(memory: MemoryOptions, listeners: Sequence[Listener]) -> tuple[Simulation, Callable[[], ArenaMap]]:
        simulation = simulate_vela(
            arguments.model, options, memory, listeners, show, arguments.engine, load_timing(arguments.timing), homes
        )
        network = simulation.network
        if unsaid := unsaid_homes(network, homes_of(network, homes, simulation.system)):
            names = f"{', '.join(unsaid[:3])}{' and others' if len(unsaid) > 3 else ''}"
            say(
                "note",
                f"a compiled file does not say where {names} lives: beside the arena, unless --home NAME=MEMORY says otherwise.",
            )
        return simulation, lambda: program_map(simulation)

    return _answer(arguments, "vela", arguments.model, simulate, show)


def _answer(arguments: argparse.Namespace, kind: str, source: str, simulate: Simulate, show: Progress) -> ReplayOutcome:
    from msgspec.structs import replace

    from npu_testbed.commands.choices import memory_options
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.files import write_files
    from npu_testbed.findings import findings
    from npu_testbed.html import html_report
    from npu_testbed.html.data import replay_data, report_title
    from npu_testbed.html.recorder import TimelineEvents
    from npu_testbed.measured import beside_measured
    from npu_testbed.outcomes.replay import ReplayOutcome
    from npu_testbed.reports.tables import all_shortened, layers_csv
    from npu_testbed.simulation import trace_file
    from npu_testbed.views.arena_map import trace_buffers
    from npu_testbed.views.sram_map import sram_map_svg
    from sim.views.node_data import node_data_json
    from sim.views.timeline import TimelineRecorder
    from sim.views.trace import TraceRecorder

    min_percent(arguments)
    cpu = load_cpu_table(arguments.cpu)
    if arguments.timeline is not None and arguments.json:
        raise InputError("--timeline was given together with --json, which has no drawings: leave one of them out.")
    recorder, events, timeline = TraceRecorder(), TimelineEvents(), TimelineRecorder(all_shortened)
    _require_places(arguments, source)
    measured = _measured(arguments)
    listeners: list[Listener] = [recorder] if arguments.trace is not None else []
    listeners += [events] if arguments.report is not None else []
    listeners += [timeline] if arguments.timeline is not None else []
    simulation, areas = simulate(memory_options(arguments), listeners)
    simulation = replace(_explained(simulation, arguments, source), cpu=cpu)
    beside = None if measured is None else beside_measured(simulation.replay, measured, arguments.measured_cycles)
    drawing = "" if arguments.timeline is None else _drawn(timeline, arguments.timeline)
    # What fails late leaves no file: all of them are written at the end.
    files: dict[Path, bytes] = {}
    if arguments.sram_map is not None:
        show(f"Drawing {arguments.sram_map}")
        files[Path(arguments.sram_map)] = sram_map_svg(areas()).encode("utf-8")
    if arguments.trace is not None:
        show(f"Tracing {source}")
        files[Path(arguments.trace)] = trace_file(simulation, recorder, arguments.trace, trace_buffers(areas()))
    if arguments.node_data is not None:
        files[Path(arguments.node_data)] = node_data_json(simulation.replay).encode("ascii")
    if arguments.csv is not None:
        files[Path(arguments.csv)] = layers_csv(simulation.replay)
    found = None if arguments.no_advice else findings(simulation, show, getattr(arguments, "arena_cache_size", None))
    if arguments.report is not None:
        data = {"replay": replay_data(simulation, areas(), events, found, beside=beside)}
        files[Path(arguments.report)] = html_report(report_title(simulation), data)
    if files:
        show(f"Writing {' and '.join(map(str, files))}")
        write_files(files)
    return ReplayOutcome(
        kind,
        simulation,
        areas,
        found,
        beside,
        drawing=drawing,
        trace=arguments.trace or "",
        min_percent=min_percent(arguments),
        stalls=arguments.stalls,
        cpu_operations=arguments.show_cpu_operations,
    )


def _explained(simulation: Simulation, arguments: argparse.Namespace, source: str) -> Simulation:
    """The simulation whose operators on the CPU say why they are there, where that is asked for."""
    from msgspec.structs import replace

    from npu_testbed.cpu_reasons import with_reasons_of

    if not arguments.show_cpu_operations and arguments.report is None:
        return simulation
    return replace(simulation, network=with_reasons_of(simulation.network, source))


def _measured(arguments: argparse.Namespace) -> Measured | None:
    """The measurement that is asked for; InputError for an option on it without one."""
    from npu_testbed.measured import column_map, read_measured

    if arguments.measured_cycles is not None and arguments.measured is None:
        raise InputError("--measured-cycles was given without --measured, which it is for: give both, or leave it out.")
    if arguments.columns is not None and arguments.measured is None:
        raise InputError("--columns was given without --measured, whose columns they are: give both, or leave it out.")
    columns = None if arguments.columns is None else column_map(arguments.columns)
    return None if arguments.measured is None else read_measured(arguments.measured, columns)


def _require_places(arguments: argparse.Namespace, source: str) -> None:
    """InputError if what is asked for cannot be written."""
    from npu_testbed.files import require_page, require_picture, require_writable

    if arguments.trace is not None:
        require_writable(arguments.trace, source)
    if arguments.node_data is not None:
        require_writable(arguments.node_data, source)
    if arguments.sram_map is not None:
        require_picture(arguments.sram_map, source)
    if arguments.csv is not None:
        require_writable(arguments.csv, source)
    if arguments.report is not None:
        require_page(arguments.report, source)


def _drawn(timeline: TimelineRecorder, window: tuple[int, int | None]) -> str:
    """The timeline in lines as wide as tables are; InputError if the window lies behind the last cycle."""
    from sim.views.timeline import LABELS, CycleWindow
    from validation.layout import width

    if window[0] >= timeline.cycles:
        raise InputError(f"--timeline begins at cycle {window[0]} and the replay has {timeline.cycles}: give a smaller one.")
    return timeline.text(max(width() - LABELS, 1), CycleWindow(*window)).rstrip("\n")
