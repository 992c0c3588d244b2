"""``npu-testbed schedule``: a model to a schedule file."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_cpu_operations_option,
    add_cpu_option,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_layer_options,
    add_memory_options,
    add_model_argument,
    add_recompute_option,
    add_report_option,
    add_settings_option,
    add_spill_option,
    add_timing_option,
    add_vela_timeout_option,
    byte_count,
    example,
    min_percent,
    seconds,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cascader.ethosu.search.task import Choice, Seen
    from npu_testbed.anytime import Ending
    from npu_testbed.cpu_time import CpuTable
    from npu_testbed.findings import Finding
    from npu_testbed.outcomes.device_plan import DevicePlanOutcome
    from npu_testbed.outcomes.schedule import ScheduleOutcome
    from npu_testbed.progress import Progress
    from npu_testbed.simulation import Simulation


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "schedule",
        help="schedule a network and write the schedule file",
        description=(
            "Schedule a quantised network and write a self-contained schedule file. Layers are cascaded in stripes: of the schedules "
            "found that fit, the fastest in replay is written, or with --optimise Size the one that needs least SRAM."
        ),
        epilog=example(
            "npu-testbed schedule zoo:ds_cnn --arena-cache-size 16384 -o ds_cnn.json",
            "npu-testbed schedule zoo:ds_cnn --optimise Size -o ds_cnn.json",
            "npu-testbed schedule zoo:mobilenet_v1 --no-cascade -o mobilenet_v1.json",
            "npu-testbed schedule zoo:tiny_residual --stripes --optimise Size -o tiny.json",
            "npu-testbed schedule graph.py:make_graph --optimise Size -o graph.json",
            "npu-testbed schedule graph.py:make_graph --device dsp.toml -o graph.c",
        ),
    )
    add_model_argument(parser)
    parser.add_argument("-o", "--output", metavar="SCHEDULE.json", required=True, help="schedule file to write")
    add_accelerator_option(parser, "ethos-u55-128")
    parser.add_argument(
        "--arena-cache-size",
        metavar="BYTES",
        type=byte_count,
        help="most bytes that the arena may take, such as 262144 or 256KiB (default: those of the memory mode)",
    )
    parser.add_argument("--optimise", choices=("Performance", "Size"), help="what to optimise for within the bound (default: Performance)")
    add_home_option(parser)
    add_spill_option(parser)
    parser.add_argument("--no-cascade", action="store_true", help="run every layer whole, one after the other")
    parser.add_argument(
        "--stripes",
        action="store_true",
        help=(
            "execute plans of stripes along any axes, recomputed or rolling, as TVM's RFC 0037 has them, in place of the search, which "
            "cuts rows: for small networks; the answer says each group's stripe and buffers"
        ),
    )
    parser.add_argument(
        "--effort",
        choices=("quick", "standard", "thorough"),
        help=(
            "how hard to search: near the bound with fewer changes or more, or at every memory limit that a frontier tries, "
            "which takes some times longer, and for networks of at most ten parts every schedule (default: standard)"
        ),
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=seconds,
        help="write the best schedule that is known after so much time by the clock, as Ctrl-C does (default: search to the end)",
    )
    add_jobs_option(parser)
    add_input_shape_option(parser)
    add_vela_timeout_option(parser)
    add_memory_options(parser, "the timing adapter u55_high_end; `simulate schedule` replays on what is given here")
    add_settings_option(parser)
    add_timing_option(parser)
    add_recompute_option(parser)
    add_layer_options(parser)
    add_report_option(parser)
    add_cpu_operations_option(parser)
    add_cpu_option(parser)
    parser.add_argument(
        "--device",
        metavar="FILE.toml",
        help=(
            "plan Tensor Expressions for a device of your own in place of the NPU, whose work and bytes per cycle and memories this file "
            "says: stripes along any axes, recomputed, rolling or double-buffered; -o FILE.json, FILE.c or FILE.py is plan, C or TensorIR"
        ),
    )
    add_json_option(parser)
    defaults = {_spelled(action): (action.dest, action.default) for action in parser._actions if action.option_strings}  # noqa: SLF001  # argparse has no public list
    # A cost is a function, which only the Python API can give.
    parser.set_defaults(run=Printed(partial(_answer, defaults)), cost=None)


def _spelled(action: argparse.Action) -> str:
    return action.option_strings[-1]


_OF_DEVICE = {"output", "arena_cache_size", "optimise", "json", "device", "help"}
"""Options that mean something with --device."""


def _answer(defaults: Mapping[str, tuple[str, Any]], arguments: argparse.Namespace, show: Progress) -> ScheduleOutcome | DevicePlanOutcome:
    """Schedule for the NPU, or for a device of the user's own."""
    if arguments.device is None:
        return answer(arguments, show)
    from npu_testbed.files import require_writable, write_files
    from npu_testbed.own_device import files_of, plan_for_device

    other = next(
        (name for name, (dest, default) in defaults.items() if dest not in _OF_DEVICE and getattr(arguments, dest) != default), None
    )
    other = "cost" if arguments.cost is not None else other
    if other is not None:
        raise InputError(f"{other} was given together with --device, which is no NPU: drop one of them.")
    if arguments.output is not None:
        require_writable(arguments.output, arguments.model, arguments.device)
    budget, smallest = arguments.arena_cache_size, arguments.optimise == "Size"
    outcome = plan_for_device(arguments.model, arguments.device, arguments.output, budget=budget, smallest=smallest, progress=show)
    if arguments.output is not None:
        files = files_of(outcome)
        for path in files:
            require_writable(path, arguments.model, arguments.device)
        write_files(files)
    return outcome


def answer(arguments: argparse.Namespace, show: Progress) -> ScheduleOutcome:
    """Make the schedule, replay it and write it; Terminated if a signal ended the search, once the best until then is written."""
    from concurrent.futures import ThreadPoolExecutor

    from msgspec.structs import replace

    from npu_testbed.commands.choices import arena_bound
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.endings import INTERRUPTED
    from npu_testbed.files import require_page, require_writable, write_files
    from npu_testbed.termination import Terminated

    _check_together(arguments)
    _check_cost(arguments)
    min_percent(arguments)
    cpu = load_cpu_table(arguments.cpu)
    arguments.arena_cache_size = arena_bound(arguments)
    written = [file for file in (arguments.output, arguments.csv) if file is not None]
    for number, file in enumerate(written):
        require_writable(file, arguments.model, *written[:number])
    if arguments.report is not None:
        require_page(arguments.report, arguments.model, *written)
    ending = _ending(arguments, show)
    # Vela has run by now: what reads its answers is imported beside it.
    from npu_testbed.outcomes.schedule import ScheduleOutcome

    # What reads a schedule takes long to import: it is imported while Vela runs.
    from npu_testbed.scheduling import schedule_file

    plan = ending.choice.point.schedule
    if ending.status:
        _write_stopped(ending, arguments.output)
        raise Terminated.by_status(ending.status)
    # The constants are compressed without Python's lock: so they are while the schedule is replayed.
    with ThreadPoolExecutor(1) as beside:
        packed = beside.submit(schedule_file, plan)
        try:
            simulation, found, files = _replayed(ending.choice, arguments, cpu, show)
        except KeyboardInterrupt as stop:
            # A report can be made of the file at any time, the search would be lost.
            ending = replace(ending, stopped="an interrupt of its report", status=getattr(stop, "status", INTERRUPTED))
            _write_stopped(ending, arguments.output)
            raise Terminated.by_status(ending.status) from None
    # What fails late leaves no file: all of them are written at the end.
    if arguments.output is not None:
        files[Path(arguments.output)] = packed.result()
    if files:
        show(f"Writing {' and '.join(map(str, files))}")
        write_files(files)
    return ScheduleOutcome(
        ending.choice,
        simulation,
        found,
        cascaded=not arguments.no_cascade,
        stopped=ending.stopped,
        output=arguments.output or "",
        min_percent=min_percent(arguments),
        cpu_operations=arguments.show_cpu_operations,
        striped=ending.striped,
    )


def _check_together(arguments: argparse.Namespace) -> None:
    """InputError for options of the search beside those that do without it."""
    of_search = ("--effort", "--time-limit", "--recompute", "--spill")
    for switch, others, why in (
        ("--no-cascade", ("--stripes", "--optimise", *of_search), "which leaves no choice"),
        ("--stripes", (*of_search, "--home"), "which is no search of rows"),
    ):
        for option in others if getattr(arguments, _field(switch)) else ():
            given = getattr(arguments, _field(option))
            if given not in (None, False, []):
                name = option if given is True else f"{option} {' '.join(given) if isinstance(given, list) else given}"
                raise InputError(f"{name} was given together with {switch}, {why}: drop one of them.")


def _field(option: str) -> str:
    """The attribute of an option."""
    return {"--home": "homes"}.get(option, option.lstrip("-").replace("-", "_"))


def _check_cost(arguments: argparse.Namespace) -> None:
    """InputError for a cost beside another aim."""
    if arguments.cost is None:
        return
    if arguments.stripes:
        raise InputError("cost was given together with stripes, which is no search of rows: drop one of them.")
    if arguments.no_cascade or arguments.optimise is not None:
        other = "no_cascade, which leaves no choice" if arguments.no_cascade else f"optimise={arguments.optimise!r}, another aim"
        raise InputError(f"cost was given together with {other}: drop one of them.")
    if not callable(arguments.cost):
        raise InputError(f"cost is {shown(arguments.cost)}: give a function of npu_testbed.Figures that returns a number.")


def _write_stopped(ending: Ending, output: str | None) -> None:
    """Write the best schedule so far: whoever wants the process to end is told what it is, and gets no report, which takes time."""
    from npu_testbed.anytime import in_words
    from npu_testbed.endings import say
    from npu_testbed.scheduling import write_schedule

    if output is None:
        return
    write_schedule(ending.choice.point.schedule, output)
    say("stopped", f"by {ending.stopped}: {output} has the best schedule so far, {in_words(ending.choice)}.")


def _replayed(
    choice: Choice, arguments: argparse.Namespace, cpu: CpuTable, show: Progress
) -> tuple[Simulation, Sequence[Finding] | None, dict[Path, bytes]]:
    """The replay with what it shows a user, and the table and the page that are asked for, by their paths."""
    from msgspec.structs import replace

    from npu_testbed.simulation import simulate_schedule

    plan = choice.point.schedule
    listeners: list[TimelineEvents] = []
    if arguments.report is not None:
        from npu_testbed.html.recorder import TimelineEvents

        listeners.append(TimelineEvents())
    simulation, found = replace(simulate_schedule(plan, listeners=listeners, progress=show), cpu=cpu), None
    files: dict[Path, bytes] = {}
    if arguments.csv is not None:
        from npu_testbed.reports.tables import layers_csv

        files[Path(arguments.csv)] = layers_csv(simulation.replay)
    if not arguments.no_advice:
        from npu_testbed.findings import findings

        found = findings(simulation, show, arguments.arena_cache_size)
    for events in listeners:
        from npu_testbed.html import html_report
        from npu_testbed.html.data import replay_data, report_title
        from npu_testbed.reports.bounds import bounds_text
        from npu_testbed.views.arena_map import arena_map

        replay = replay_data(simulation, arena_map(plan, simulation.replay), events, found, arguments.arena_cache_size)
        if bounds := bounds_text(choice, simulation.replay.cycles):
            replay["facts"].append(["Proven", " ".join(bounds)])
        files[Path(arguments.report)] = html_report(report_title(simulation), {"replay": replay})
    return simulation, found, files


def _ending(arguments: argparse.Namespace, show: Progress) -> Ending:
    """The search as it ends, or the network layer by layer, which is no search."""
    from cascader.ethosu.search.effort import STANDARD
    from npu_testbed.anytime import Ending, best_in_time
    from npu_testbed.commands.choices import home_options, memory_options
    from npu_testbed.legalise import load_task
    from npu_testbed.timing import load_timing

    memory, timing, size = memory_options(arguments), load_timing(arguments.timing), arguments.arena_cache_size
    homes = home_options(arguments)
    if arguments.no_cascade:
        from cascader.ethosu.search.task import Choice, Point
        from npu_testbed.scheduling import schedule

        plan = schedule(
            arguments.model,
            arguments.accelerator_config,
            arena_cache_size=size,
            cascade=False,
            homes=homes,
            memory=memory,
            timing=timing,
            progress=show,
        )
        return Ending(Choice(Point(plan.arena_size, 0, 0, plan), None))

    if arguments.stripes:
        from cascader.ethosu.search.task import Choice
        from cascader.ethosu.striped.choice import striped_choice

        task = load_task(arguments.model, arguments.accelerator_config, memory, timing=timing, progress=show)
        striped = striped_choice(task, size, smallest=arguments.optimise == "Size", show=show)
        return Ending(Choice(striped.point, None), striped=striped)

    def search(show: Progress, seen: Seen) -> Choice:
        task = load_task(
            arguments.model,
            arguments.accelerator_config,
            memory,
            timing=timing,
            recompute=arguments.recompute,
            homes=homes,
            spill=arguments.spill,
            effort=arguments.effort or STANDARD,
            progress=show,
        )
        # What takes long to import is imported while Vela runs.
        from npu_testbed.costs import price_of
        from npu_testbed.scheduling import DEFAULT_EFFORT, DEFAULT_OPTIMISE, choice_of

        return choice_of(
            task,
            arena_cache_size=size,
            optimise=arguments.optimise or DEFAULT_OPTIMISE,
            effort=arguments.effort or DEFAULT_EFFORT,
            processes=arguments.jobs,
            progress=show,
            seen=seen,
            price=price_of(arguments.cost, task),
        )

    return best_in_time(search, show, arguments.time_limit)
