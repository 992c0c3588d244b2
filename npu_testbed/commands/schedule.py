"""``npu-testbed schedule``: a model to a schedule file."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Optional

from npu_model.errors import BudgetError, InputError
from npu_model.front import later
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.option import Option, said_by
from npu_testbed.asked.readers import seconds

with later():
    from npu_testbed.searches import costs  # few searches have a cost of their own

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request
    from cascader.ethosu.search.task import Choice, OnPoint, Task
    from npu_testbed.findings import Finding
    from npu_testbed.ground.anytime import Ending
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.device_plan import DevicePlanOutcome
    from npu_testbed.outcomes.schedule import ScheduleOutcome
    from npu_testbed.replays.simulation import Simulation
    from npu_testbed.reports.headline import Rival


class ScheduleOptions(OneSearch["ScheduleOutcome"], frozen=True, kw_only=True):
    """The options of ``schedule``."""

    output: Annotated[
        kinds.PathText | None, Option("schedule file to write", "SCHEDULE.json", named=("-o",), needed=True, writes="file")
    ] = None
    optimise: kinds.Optimise = None
    runtime: kinds.Runtime = None
    sizes: kinds.Sizes = None
    no_cascade: Annotated[bool, Option("run every layer whole, one after the other")] = False
    stripes: Annotated[
        bool,
        Option(
            "execute plans of stripes along any axes, recomputed or rolling, as in TVM's RFC 0037. They replace the search, which cuts "
            "rows, and suit small networks. The answer lists each group's stripe and buffers"
        ),
    ] = False
    time_limit: Annotated[
        float | str | None,
        Option("write the best schedule found within this time, as Ctrl-C does (default: search to the end)", "SECONDS", seconds),
    ] = None
    csv: kinds.Csv = None
    min_percent: kinds.MinPercent = None
    no_advice: kinds.NoAdvice = False
    report: kinds.Report = None
    show_cpu_operations: kinds.CpuOperations = False
    cpu: kinds.Cpu = "cortex-m55"
    device: Annotated[
        kinds.PathText | None,
        Option(
            "plan Tensor Expressions for a device of your own instead of the NPU. The file gives its work and bytes per cycle and its "
            "memories. Stripes run along any axes; -o FILE.json, FILE.c or FILE.py writes the plan, C or TensorIR",
            "FILE.toml",
        ),
    ] = None
    cost: Annotated[
        Optional["costs.Cost | str"],
        Option(
            "choose the schedule with the least cost instead of the fastest one. Give the name of a cost that another distribution "
            "registers; in Python, a function of npu_testbed.Figures that returns a number",
            "NAME",
            callable=True,
        ),
    ] = None


class Schedule(ScheduleOptions, frozen=True):
    """Schedule a quantised network and write a self-contained schedule file.

    Layers are cascaded in stripes. The fastest schedule in replay that fits is written; with --optimise Size, the schedule that needs the
    least SRAM.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed schedule zoo:ds_cnn --arena-cache-size 16384 -o ds_cnn.json",
        "npu-testbed schedule zoo:ds_cnn --optimise Size -o ds_cnn.json",
        "npu-testbed schedule zoo:mobilenet_v1 --no-cascade -o mobilenet_v1.json",
        "npu-testbed schedule zoo:tiny_residual --stripes --optimise Size -o tiny.json",
        "npu-testbed schedule graph.py:make_graph --optimise Size -o graph.json",
        "npu-testbed schedule graph.py:make_graph --device dsp.toml -o graph.c",
    )

    model: Annotated[kinds.Source, Option(kinds.GRAPH, "MODEL", source=True)]

    def answer(self, show: "Progress") -> "ScheduleOutcome":
        """Make the schedule, replay it and write it. If a signal ends the search, write the best schedule so far and raise Terminated."""
        return _answer(self, show) if self.device is None else _for_own_device(self, show)  # type: ignore[return-value]  # the plan of a device is asked for by name


_OF_DEVICE = {"model", "output", "arena_cache_size", "optimise", "json", "device", "progress"}
"""Options that apply with --device."""


def _for_own_device(ask: Schedule, show: "Progress") -> "DevicePlanOutcome":
    """Plan for a device of the user's own, and write the plan."""
    from npu_testbed.commands.own_device import files_of, plan_for_device
    from npu_testbed.ground.files import require_writable, write_files

    other = next((one for one, _ in said_by(ask) if one.name not in _OF_DEVICE), None)
    if other is not None:
        name = other.name if other.option.only == "values" else other.flag
        raise InputError(f"{name} cannot be combined with --device, which plans for your own device: drop one of them.")
    device, output = str(ask.device), None if ask.output is None else str(ask.output)
    if output is not None:
        require_writable(output, ask.model, device)
    budget = None if ask.arena_cache_size is None else int(ask.arena_cache_size)
    outcome = plan_for_device(str(ask.model), device, output, budget=budget, smallest=ask.optimise == "Size", progress=show)
    if output is not None:
        files = files_of(outcome)
        for path in files:
            require_writable(path, ask.model, device)
        write_files(files)
    return outcome


def _answer(ask: Schedule, show: "Progress") -> "ScheduleOutcome":
    from concurrent.futures import ThreadPoolExecutor

    from msgspec.structs import replace

    from npu_testbed.asked.outputs import require_outputs
    from npu_testbed.asked.request import request_of
    from npu_testbed.commands.layers import min_percent
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.ground.endings import INTERRUPTED
    from npu_testbed.ground.files import write_files
    from npu_testbed.ground.termination import Terminated

    _check_together(ask)
    _check_cost(ask)
    min_percent(ask)
    cpu = load_cpu_table(str(ask.cpu))
    require_outputs(ask)
    request = request_of(ask, str(ask.model), show, graphs=True)
    if ask.runtime is not None:
        from npu_testbed.runtimes.chosen_runtime import require_together

        require_together(ask.runtime, request)
    ending = _ending(ask, request, show)
    # Vela has run by now: these imports do not delay it.
    from npu_testbed.outcomes.schedule import ScheduleOutcome

    # This module takes long to import, and Vela does not wait for it.
    from npu_testbed.replays.scheduling import schedule_file
    from npu_testbed.runtimes.chosen_runtime import require_runs
    from npu_testbed.runtimes.sizes import sizes_file

    output = None if ask.output is None else str(ask.output)
    plan = ending.choice.point.schedule
    if ending.status:
        _write_stopped(ending, output)
        raise Terminated.by_status(ending.status)
    # The constants are compressed without Python's lock, so this runs while the schedule is replayed.
    with ThreadPoolExecutor(1) as beside:
        packed = beside.submit(schedule_file, plan)
        try:
            simulation, found, files, rival = _replayed(ending.choice, ask, request, show)
        except KeyboardInterrupt as stop:
            # A report can be made from the file at any time; the search would be lost.
            ending = replace(ending, stopped="an interrupt of its report", status=getattr(stop, "status", INTERRUPTED))
            _write_stopped(ending, output)
            raise Terminated.by_status(ending.status) from None
    outcome = ScheduleOutcome(
        ending.choice,
        replace(simulation, cpu=cpu, granted_bytes=request.budget),
        found,
        cascaded=not ask.no_cascade,
        stopped=ending.stopped,
        output=output or "",
        min_percent=min_percent(ask),
        cpu_operations=ask.show_cpu_operations,
        striped=ending.striped,
        rival=rival,
    )
    require_runs(ask.runtime, outcome.runtimes)
    # A late failure leaves no file: all files are written at the end.
    if output is not None:
        files[Path(output)] = packed.result()
    if ask.sizes is not None:
        files[Path(ask.sizes)] = sizes_file(outcome.runtimes, ask.sizes, plan.provenance.model)
    if files:
        show(f"Writing {' and '.join(map(str, files))}")
        write_files(files)
    return outcome


_OF_SEARCH = ("effort", "time_limit", "within", "recompute", "no_recompute", "spill")


def _check_together(ask: Schedule) -> None:
    """InputError for options of the search together with options that need no search."""
    said = {one.name: (one, value) for one, value in said_by(ask)}
    for switch, others, why in (
        ("no_cascade", ("stripes", "optimise", *_OF_SEARCH), "which leaves no choice"),
        ("stripes", (*_OF_SEARCH, "home", "keep"), "which is not a search of rows"),
    ):
        for option in others if switch in said else ():
            if option in said:
                one, value = said[option]
                name = one.flag if value is True else f"{one.flag} {' '.join(value) if isinstance(value, tuple) else value}"
                raise InputError(f"{name} cannot be combined with --{switch.replace('_', '-')}, {why}: drop one of them.")


def _check_cost(ask: Schedule) -> None:
    """InputError for a cost together with another aim."""
    if ask.cost is None:
        return
    if ask.stripes:
        raise InputError("cost cannot be combined with stripes, which is not a search of rows: drop one of them.")
    if ask.no_cascade or ask.optimise is not None or ask.within is not None:
        aim = "within" if ask.optimise is None else f"optimise={ask.optimise!r}"
        other = "no_cascade, which leaves no choice" if ask.no_cascade else f"{aim}, another aim"
        raise InputError(f"cost cannot be combined with {other}: drop one of them.")
    if isinstance(ask.cost, str):
        from npu_testbed.searches.costs import cost_of

        cost_of(ask.cost)


def _write_stopped(ending: "Ending", output: str | None) -> None:
    """Write the best schedule so far and say so. A report would take time and is left out."""
    from npu_testbed.ground.anytime import described
    from npu_testbed.ground.endings import say
    from npu_testbed.replays.scheduling import write_schedule

    if output is None:
        return
    write_schedule(ending.choice.point.schedule, output)
    say("stopped", f"by {ending.stopped}: {output} has the best schedule so far, {described(ending.choice)}.")


def _replayed(
    choice: "Choice", ask: Schedule, request: "Request", show: "Progress"
) -> "tuple[Simulation, Sequence[Finding] | None, dict[Path, bytes], Rival | None]":
    """The replay with its findings, the requested table and page by their paths, and Vela's schedule if the page shows it."""
    from npu_testbed.replays.simulation import simulate_schedule

    plan = choice.point.schedule
    listeners = []
    if ask.report is not None:
        from sim.views.recorder import DRAWN, EventRecorder

        listeners.append(EventRecorder(DRAWN))
    simulation, found, rival = simulate_schedule(plan, listeners=listeners, progress=show), None, None
    files: dict[Path, bytes] = {}
    if ask.csv is not None:
        from npu_testbed.reports.tables import layers_csv

        files[Path(ask.csv)] = layers_csv(simulation.replay)
    if not ask.no_advice:
        from npu_testbed.findings import findings

        found = findings(simulation, show, request.budget)
    for events in listeners:
        from npu_testbed.html import html_report
        from npu_testbed.html.data import replay_data, report_title
        from npu_testbed.reports.bounds import bounds_text
        from npu_testbed.runtimes.runtime_use import of_schedule
        from npu_testbed.runtimes.runtime_words import notes
        from npu_testbed.views.arena_map import arena_map

        areas, rival = arena_map(plan, simulation.replay), _rival(ask, request, simulation, show)
        replay = replay_data(simulation, areas, events, found, request.budget, rival=rival)
        if bounds := bounds_text(choice, simulation.replay.cycles):
            replay["facts"].append(["Proven", " ".join(bounds)])
        uses = of_schedule(plan, simulation.network, simulation.replay.cycles)
        replay["facts"].append(["Runtimes", " ".join(sentence for use in uses for sentence in notes(use))])
        files[Path(str(ask.report))] = html_report(report_title(simulation), {"replay": replay})
    return simulation, found, files, rival


def _rival(ask: Schedule, request: "Request", simulation: "Simulation", show: "Progress") -> "Rival | None":
    """Vela's schedule for the headline of the report; None if it cannot be compared or if time is short."""
    from npu_testbed.comparisons.vela_rival import vela_rival
    from npu_testbed.reports.headline import Rival

    point = None if ask.time_limit is not None else vela_rival(request, simulation, show)
    return None if point is None else Rival(point.run.name, point.cycles, point.memory)


def _planned(ask: Schedule, request: "Request", task: "Task") -> "Request":
    """The request, less the bytes that the runtime takes for itself. Vela has run by now."""
    from npu_testbed.runtimes.chosen_runtime import planned_room

    return planned_room(ask.runtime, request, task)


def _ending(ask: Schedule, request: "Request", show: "Progress") -> "Ending":
    """The result of the search, or the network layer by layer, which needs no search."""
    from npu_testbed.asked.request import run_of
    from npu_testbed.ground.anytime import Ending, best_in_time
    from npu_testbed.models.legalise import load_task

    if ask.no_cascade:
        from cascader.ethosu.search.task import Choice, Point
        from npu_testbed.replays.scheduling import whole_layers

        task = load_task(request, show)
        plan = whole_layers(task, _planned(ask, request, task))
        return Ending(Choice(Point(plan.arena_size, 0, 0, plan), None))

    if ask.stripes:
        from cascader.ethosu.search.task import Choice
        from cascader.ethosu.striped.choice import striped_choice

        task = load_task(request, show)
        striped = striped_choice(task, _planned(ask, request, task).budget, smallest=request.smallest, show=show)
        return Ending(Choice(striped.point, None), striped=striped)

    def search(show: "Progress", seen: "OnPoint") -> "Choice":
        from msgspec.structs import replace

        task = load_task(request, show)
        # These modules take long to import: they are imported while Vela runs.
        from npu_testbed.replays.scheduling import choice_of
        from npu_testbed.searches.costs import cost_of, price_of

        run = replace(run_of(ask, show), seen=seen, price=price_of(cost_of(ask.cost), task))
        try:
            planned = _planned(ask, request, task)
            return choice_of(task, planned, run)
        except BudgetError as error:
            from npu_testbed.searches.other_ways import with_other_ways

            raise (error if ask.runtime else with_other_ways(error, request, run)) from None

    return best_in_time(search, show, None if ask.time_limit is None else float(ask.time_limit))
