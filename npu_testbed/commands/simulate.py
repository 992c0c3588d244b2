"""``npu-testbed simulate``: replay a schedule of ours or of Vela's."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import Option
from npu_testbed.asked.readers import cycle_count
from npu_testbed.commands.layers import min_percent

if TYPE_CHECKING:
    from cascader.ethosu.job.schedule import Schedule
    from cascader.ethosu.search.request import Request
    from npu_testbed.findings import Finding
    from npu_testbed.ground.progress import Progress
    from npu_testbed.measured.reading import Measured
    from npu_testbed.outcomes.replay import ReplayOutcome
    from npu_testbed.replays.simulation import Simulation
    from npu_testbed.views.arena_map import ArenaMap
    from sim import Listener
    from sim.views.timeline import TimelineRecorder

    Replaying = Callable[[Sequence[Listener]], tuple[Simulation, Callable[[], ArenaMap]]]
    """Run the requested replay. The caller makes the map of its arena."""
    Unmet = Callable[[Simulation], tuple[Finding, ...]]
    """The finding on a limit of the arena that is exceeded."""


_DIGITS = 40
"""Characters of a window of cycles."""

CHECKS = (
    "A schedule is refused if it reads bytes that nothing wrote, if it overwrites its own input, or if its weight streams cannot be "
    "decoded or hold another number of weights than the operation has. A warning lists bytes whose order nothing guarantees: no wait, "
    "no BLOCKDEP, no queue. Values are not checked: use `npu-testbed verify`."
)
"""The checks that a replay makes, and those that it leaves out."""


def _window(text: str) -> tuple[int, int | None]:
    """The cycles to draw: FIRST:LAST; either may be left out."""
    first, mark, last = text.partition(":")
    plain = (not first or (first.isascii() and first.isdecimal())) and (not last or (last.isascii() and last.isdecimal()))
    if not mark or not plain or len(text) > _DIGITS or (last and int(first or 0) >= int(last)):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a window of cycles, give FIRST:LAST with FIRST below LAST, such as 0:2000")
    return int(first or 0), int(last) if last else None


class Replay(Ask["ReplayOutcome"], frozen=True, kw_only=True):
    """The options of every replay: the memories, and the reports."""

    more: ClassVar[str] = CHECKS

    chip: kinds.Chip = None
    timing_adapter: kinds.TimingAdapter = None
    system_config: kinds.SystemConfig = None
    memory_mode: kinds.MemoryMode = None
    config: kinds.Config = None
    set: kinds.Settings = ()
    timing: kinds.Timing = None
    deadline: kinds.Deadline = None
    stalls: Annotated[bool, Option("also say how every unit spent its cycles: busy, waiting by cause, idle", group=kinds.REPORTS)] = False
    csv: kinds.Csv = None
    min_percent: kinds.MinPercent = None
    no_advice: kinds.NoAdvice = False
    report: kinds.Report = None
    show_cpu_operations: kinds.CpuOperations = False
    cpu: kinds.Cpu = "cortex-m55"
    sram_map: Annotated[
        kinds.PathText | None, Option("draw the arena over the cycles, tensor by tensor", "M.svg", group=kinds.REPORTS, writes="picture")
    ] = None
    trace: Annotated[
        kinds.PathText | None,
        Option("write a trace of every unit, which ui.perfetto.dev opens", "T.json[.gz]", group=kinds.REPORTS, writes="file"),
    ] = None
    measured: Annotated[
        kinds.PathText | None,
        Option(
            "also compare the replay with a measurement. It may be an FVP's PMU trace, a log of the evaluation kit or of ExecuTorch with "
            "the NPU's counters, QREAD samples, a CSV of layers, Vela's per-layer CSV, or the table of ExecuTorch's inspector",
            "M.csv",
            group=kinds.REPORTS,
        ),
    ] = None
    columns: Annotated[
        str | None,
        Option("columns of --measured that hold layers and cycles, of a CSV of your own", "layer=NAME,cycles=NAME", group=kinds.REPORTS),
    ] = None
    measured_cycles: Annotated[
        int | None,
        Option("NPU ACTIVE of the measured inference, if the measurement has no cycle counter", "N", cycle_count, kinds.REPORTS),
    ] = None
    node_data: Annotated[
        kinds.PathText | None,
        Option("write the cycles by tensor name, which Model Explorer shows on the .tflite", "F.json", group=kinds.REPORTS, writes="file"),
    ] = None
    timeline: Annotated[
        str | bool | None,
        Option(
            "also draw what every unit did, as text: all cycles, or those from FIRST up to LAST",
            "FIRST:LAST",
            _window,
            kinds.REPORTS,
            alone=":",
        ),
    ] = None
    engine: Annotated[
        Literal["", "fast", "simpy"],
        Option(
            "engine of the replay: the fast recurrence or SimPy, with the same cycles (default: fast; simpy for a trace or a timeline)",
            group=kinds.REPORTS,
        ),
    ] = ""


class SimulateScheduleOptions(Replay, frozen=True, kw_only=True):
    """The options of ``simulate schedule``."""

    stream: Annotated[
        str | None,
        Option(
            'also run the schedule while the rows of an input ("input": the only one) arrive in its home, cut into command streams',
            "NAME=CYCLES_PER_ROW",
        ),
    ] = None


class SimulateSchedule(SimulateScheduleOptions, frozen=True):
    """Replay a schedule file."""

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed simulate schedule mobilenet_v1.json --trace mobilenet_v1.trace.json.gz --sram-map mobilenet_v1.svg",
    )

    schedule: Annotated[kinds.Source, Option("a file that `npu-testbed schedule` wrote", "SCHEDULE.json", source=True)]

    def answer(self, show: "Progress") -> "ReplayOutcome":
        """Replay a schedule: a file, or one in memory."""
        from msgspec.structs import replace

        from cascader.ethosu.search.request import ScheduleSource
        from npu_testbed.asked.replays import replay_of_schedule
        from npu_testbed.replays.simulation import simulate
        from npu_testbed.replays.streaming import stream_of, streamed_input
        from npu_testbed.views.arena_map import arena_map

        stream, text = None if self.stream is None else stream_of(self.stream), str(self.schedule)
        plans: list[Schedule] = []

        def replay(listeners: "Sequence[Listener]") -> "tuple[Simulation, Callable[[], ArenaMap]]":
            request = replay_of_schedule(self, text, show)
            simulation = simulate(request, listeners, show, self.engine)
            assert isinstance(request.source, ScheduleSource)  # noqa: S101  # it has been read as one
            plan = request.source.plan
            plans.append(plan)
            return simulation, lambda: arena_map(plan, simulation.replay)

        outcome = _answer(self, "schedule", text, replay, show)
        if stream is None:
            return outcome
        replayed = outcome.simulation
        return replace(outcome, stream=streamed_input(plans[0], *stream, replayed.system, replayed.timing))


class SimulateVelaOptions(Replay, frozen=True, kw_only=True):
    """The options of ``simulate vela``."""

    accelerator_config: kinds.Accelerator = None
    optimise: kinds.Optimise = None
    arena_cache_size: kinds.Budget = None
    input_shape: kinds.InputShapes = ()
    layout: kinds.Layouts = ()
    vela_timeout: kinds.VelaTimeout = None
    separate_io_regions: Annotated[bool, Option("give inputs and outputs regions of their own, outside the arena")] = False
    home: kinds.Homes = ()


class SimulateVela(SimulateVelaOptions, frozen=True):
    """Replay Vela's own schedule: a compiled *_vela.tflite unchanged; any other network is compiled with Vela first."""

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed simulate vela zoo:mobilenet_v1 --optimise Size",
        "npu-testbed simulate vela network_vela.tflite --timing-adapter off --stalls --sram-map network.svg",
    )

    model: Annotated[
        kinds.Source,
        Option(
            "a *_vela.tflite, an ExecuTorch .pte, a C array of either, a .tflite to compile, zoo:NAME or portfolio:NAME",
            "MODEL",
            source=True,
        ),
    ]

    def answer(self, show: "Progress") -> "ReplayOutcome":
        """Replay Vela's schedule."""
        from npu_testbed.asked.replays import replay_of_model
        from npu_testbed.asked.request import shaped
        from npu_testbed.findings.unmet import unmet_limit
        from npu_testbed.ground.endings import say
        from npu_testbed.models.compiled_homes import homes_of, unsaid_homes
        from npu_testbed.replays.simulation import simulate
        from npu_testbed.views.program_map import program_map

        text = shaped(self.model, self)
        requests: list[Request] = []

        def replay(listeners: "Sequence[Listener]") -> "tuple[Simulation, Callable[[], ArenaMap]]":
            request = replay_of_model(self, text, show)
            simulation = simulate(request, listeners, show, self.engine, separate_io_regions=self.separate_io_regions)
            network = simulation.network
            if unsaid := unsaid_homes(network, homes_of(network, request.homes, simulation.system)):
                names = f"{', '.join(unsaid[:3])}{' and others' if len(unsaid) > 3 else ''}"
                say(
                    "note",
                    f"a compiled file does not say where {names} lives: beside the arena, unless --home NAME=MEMORY says otherwise.",
                )
            requests.append(request)
            return simulation, lambda: program_map(simulation)

        def unmet(simulation: "Simulation") -> "tuple[Finding, ...]":
            elsewhere = self.home or self.separate_io_regions
            return () if elsewhere else unmet_limit(requests[0], simulation, show)

        return _answer(self, "vela", text, replay, show, unmet)


def _met(_: "Simulation") -> "tuple[Finding, ...]":
    """No finding, because the schedule meets its limit."""
    return ()


def _answer(ask: "Replay", kind: str, source: str, replay: "Replaying", show: "Progress", unmet: "Unmet" = _met) -> "ReplayOutcome":
    from msgspec.structs import replace

    from npu_testbed.asked.outputs import require_outputs
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.findings import findings
    from npu_testbed.ground.files import asked_files, write_files
    from npu_testbed.html import html_report
    from npu_testbed.html.data import replay_data, report_title
    from npu_testbed.measured.rows import beside_measured
    from npu_testbed.outcomes.replay import ReplayOutcome
    from npu_testbed.replays.layer_names import all_shortened
    from npu_testbed.replays.simulation import trace_file
    from npu_testbed.reports.tables import layers_csv
    from npu_testbed.views.arena_map import trace_buffers
    from npu_testbed.views.sram_map import sram_map_svg
    from sim.views.node_data import node_data_json
    from sim.views.recorder import DRAWN, TRACED, EventRecorder
    from sim.views.timeline import TimelineRecorder

    min_percent(ask)
    cpu = load_cpu_table(str(ask.cpu))
    if ask.timeline is not None and ask.json:
        raise InputError("--timeline cannot be combined with --json, which has no drawings: leave one of them out.")
    recorder, events, timeline = EventRecorder(TRACED), EventRecorder(DRAWN), TimelineRecorder(all_shortened)
    require_outputs(ask)
    measured = _measured(ask)
    listeners: list[Listener] = [recorder] if ask.trace is not None else []
    listeners += [events] if ask.report is not None else []
    listeners += [timeline] if ask.timeline is not None else []
    simulation, areas = replay(listeners)
    simulation = replace(_explained(simulation, ask, source), cpu=cpu)
    beside = None if measured is None else beside_measured(simulation.replay, measured, ask.measured_cycles)
    drawing = "" if ask.timeline is None else _drawn(timeline, ask.timeline)  # type: ignore[arg-type]  # the reader has made a window of it
    # A late failure leaves no file: all files are written at the end.
    found = None if ask.no_advice else (*unmet(simulation), *findings(simulation, show, getattr(ask, "arena_cache_size", None)))

    def report() -> bytes:
        return html_report(report_title(simulation), {"replay": replay_data(simulation, areas(), events, found, beside=beside)})

    files = asked_files(
        (ask.sram_map, lambda: sram_map_svg(areas()).encode("utf-8")),
        (ask.trace, lambda: trace_file(simulation, recorder, str(ask.trace), trace_buffers(areas()))),
        (ask.node_data, lambda: node_data_json(simulation.replay).encode("ascii")),
        (ask.csv, lambda: layers_csv(simulation.replay)),
        (ask.report, report),
    )
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
        trace="" if ask.trace is None else str(ask.trace),
        min_percent=min_percent(ask),
        stalls=ask.stalls,
        cpu_operations=ask.show_cpu_operations,
    )


def _explained(simulation: "Simulation", ask: "Replay", source: str) -> "Simulation":
    """The simulation with the reasons of its operators on the CPU, if requested."""
    from msgspec.structs import replace

    from npu_testbed.models.cpu_reasons import with_reasons_of

    if not ask.show_cpu_operations and ask.report is None:
        return simulation
    return replace(simulation, network=with_reasons_of(simulation.network, source))


def _measured(ask: "Replay") -> "Measured | None":
    """The requested measurement; InputError for an option of measurements without one."""
    from npu_testbed.measured.reading import column_map, read_measured

    if ask.measured_cycles is not None and ask.measured is None:
        raise InputError("--measured-cycles was given without --measured, which it is for: give both, or leave it out.")
    if ask.columns is not None and ask.measured is None:
        raise InputError("--columns was given without --measured, whose columns they are: give both, or leave it out.")
    columns = None if ask.columns is None else column_map(ask.columns)
    return None if ask.measured is None else read_measured(str(ask.measured), columns)


def _drawn(timeline: "TimelineRecorder", window: "tuple[int, int | None]") -> str:
    """The timeline in lines as wide as a table; InputError if the window begins after the last cycle."""
    from sim.views.timeline import LABELS, CycleWindow
    from validation.layout import width

    if window[0] >= timeline.cycles:
        raise InputError(f"--timeline begins at cycle {window[0]} and the replay has {timeline.cycles}: give a smaller one.")
    return timeline.text(max(width() - LABELS, 1), CycleWindow(*window)).rstrip("\n")
