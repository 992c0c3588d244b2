"""``npu-testbed compare``: our schedules of a network, and Vela's."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.option import Option, given
from npu_testbed.asked.readers import positive_count
from npu_testbed.commands.layers import min_percent

if TYPE_CHECKING:
    from npu_testbed.comparisons.comparison import Comparison
    from npu_testbed.findings import Finding
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.comparison import ComparisonOutcome
    from npu_testbed.replays.simulation import Simulation


class CompareOptions(OneSearch["ComparisonOutcome"], frozen=True, kw_only=True):
    """The options of ``compare``."""

    plot: Annotated[kinds.PathText | None, Option("draw our frontier with Vela's points; for one MODEL", "F.svg", writes="picture")] = None
    schedules: Annotated[
        kinds.PathText | None,
        Option(
            "write our frontier's schedule files into this folder. It holds the best so far while the search goes on; after an "
            "interruption the same command continues from this folder (for one MODEL)",
            "DIR",
        ),
    ] = None
    results: kinds.Results = None
    markdown: Annotated[bool, Option("print the summary as a section of a Markdown page")] = False
    robust: Annotated[
        bool,
        Option("replay both sides under every change of the timing model that public data cannot exclude: which answers hold?"),
    ] = False
    rungs: Annotated[int | None, Option("memory limits that are tried per layout (default: those of the search)", "N", positive_count)] = (
        None
    )
    energy: kinds.Energy = None
    csv: kinds.Csv = None
    min_percent: kinds.MinPercent = None
    no_advice: kinds.NoAdvice = False
    report: kinds.Report = None
    cpu: kinds.Cpu = "cortex-m55"


class Compare(CompareOptions, frozen=True):
    """Compare the frontier of a network with Vela's schedules.

    They are Vela Size, Vela Performance and Vela at the same arena sizes, on both of Vela's cores; one simulator replays them all.
    The layers belong to our schedule at Vela Performance's bytes or fewer, for one MODEL.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed compare zoo:resnet8",
        "npu-testbed compare network.tflite --plot network.svg --json",
        "npu-testbed compare zoo:resnet8 zoo:ds_cnn --markdown --results found",
        "npu-testbed compare network.tflite --home input=ext --home output=ext",
    )

    models: Annotated[
        kinds.Source | Sequence[kinds.Source], Option(f"{kinds.MODEL}; several give a summary", "MODEL", source=True, many=True)
    ]

    def answer(self, show: "Progress") -> "ComparisonOutcome":
        """Compare, and write the requested files."""
        from npu_testbed.cpu_time import load_cpu_table
        from npu_testbed.ground.files import asked_files, write_files
        from npu_testbed.html.pages import comparison_page
        from npu_testbed.outcomes.comparison import ComparisonOutcome
        from npu_testbed.reports.tables import layers_csv
        from npu_testbed.views.frontier_plot import comparison_svg
        from sim.views.recorder import DRAWN, EventRecorder

        _check(self)
        cpu = load_cpu_table(str(self.cpu))
        comparisons = _compared(self, show)
        events = EventRecorder(DRAWN)
        simulation, found = _layers(self, comparisons, events, show)
        files = asked_files((self.plot, lambda: comparison_svg(comparisons[0]).encode("utf-8")))
        if simulation is not None:
            files |= asked_files(
                (
                    self.report,
                    lambda: comparison_page(comparisons[0], simulation, events, found, self.schedule_command(kinds.texts(self.models)[0])),
                ),
                (self.csv, lambda: layers_csv(simulation.replay)),
            )
        write_files(files)
        return ComparisonOutcome(comparisons, simulation, found, min_percent(self), self.markdown, cpu)


def _compared(ask: Compare, show: "Progress") -> "tuple[Comparison, ...]":
    from npu_testbed.asked.request import request_of, run_of
    from npu_testbed.comparisons.comparison import Folders, Sides, compare
    from npu_testbed.energy import load_energy_table

    sides = Sides(robust=ask.robust, energy=None if ask.energy is None else load_energy_table(str(ask.energy)))
    results, schedules = (None if folder is None else Path(folder) for folder in (ask.results, ask.schedules))
    requests = [request_of(ask, model, show) for model in kinds.texts(ask.models)]
    return tuple(compare(request, run_of(ask, show), sides, Folders(schedules, results)) for request in requests)


def _layers(
    ask: Compare, comparisons: "Sequence[Comparison]", events: object, show: "Progress"
) -> "tuple[Simulation | None, Sequence[Finding] | None]":
    """The replay of our chosen schedule and its findings, if its layers are shown."""
    from msgspec.structs import replace

    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.findings import findings
    from npu_testbed.replays.simulation import simulate_schedule

    # A section of a page has the summary only: layers are replayed only for a file that shows them.
    if len(comparisons) > 1 or (ask.markdown and ask.csv is None and ask.report is None):
        return None, None
    listeners = [events] if ask.report is not None else []
    replayed = simulate_schedule(comparisons[0].chosen.schedule, listeners=listeners, progress=show)  # type: ignore[arg-type]  # events listen
    simulation = replace(replayed, cpu=load_cpu_table(str(ask.cpu)))
    performance = comparisons[0].performance
    budget = None if performance is None else performance.memory
    no_advice = ask.no_advice or (ask.markdown and ask.report is None)
    return simulation, None if no_advice else findings(simulation, show, budget)


def _check(ask: Compare) -> None:
    """InputError for options that cannot be followed."""
    from npu_testbed.asked.outputs import require_outputs

    many = len(kinds.texts(ask.models))
    if ask.plot is not None and many > 1:
        raise InputError(f"--plot was given with {many} models: a picture shows one, compare them one by one.")
    if ask.schedules is not None and many > 1:
        raise InputError(f"--schedules was given with {many} models: a folder is for one, compare them one by one.")
    if ask.markdown and ask.json:
        raise InputError("--markdown cannot be combined with --json: both are ways to print the result, choose one.")
    min_percent(ask)
    require_outputs(ask)
    for option in given(ask, ("csv", "min_percent", "no_advice", "report", "energy")) if many > 1 else ():
        raise InputError(f"{option} was given with {many} models: it is for one, compare them one by one.")
