"""``npu-testbed frontier``: every schedule of a network that is worth having, from the smallest to the fastest."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.option import Option
from npu_testbed.asked.readers import positive_count

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.frontier import FrontierOutcome


class FrontierOptions(OneSearch["FrontierOutcome"], frozen=True, kw_only=True):
    """The options of ``frontier``."""

    output: Annotated[kinds.PathText | None, Option("write the frontier as JSON", "F.json", named=("-o",), writes="file")] = None
    plot: Annotated[kinds.PathText | None, Option("draw the frontier", "F.svg", writes="picture")] = None
    report: kinds.Report = None
    with_vela: Annotated[bool, Option("add Vela's points to the picture and the report, as `npu-testbed compare` finds them")] = False
    schedules: Annotated[
        kinds.PathText | None,
        Option(
            "write every point's schedule file into this folder, named by its bytes. It holds the best so far while the search goes "
            "on; after an interruption the same command continues from this folder",
            "DIR",
        ),
    ] = None
    rungs: Annotated[int | None, Option("memory limits that are tried per layout (default: those of the search)", "N", positive_count)] = (
        None
    )


class Frontier(FrontierOptions, frozen=True):
    """Find the Pareto frontier of a network: cascaded schedules from the one that needs least SRAM to the fastest, each replayed."""

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed frontier zoo:ds_cnn",
        "npu-testbed frontier network.tflite -o frontier.json --plot frontier.svg --schedules points",
    )

    model: Annotated[kinds.Source, Option(kinds.GRAPH, "MODEL", source=True)]

    def answer(self, show: "Progress") -> "FrontierOutcome":
        """Find the frontier, and write the requested files."""
        from npu_testbed.asked.outputs import require_outputs
        from npu_testbed.asked.request import request_of
        from npu_testbed.ground.files import asked_files, require_folder, write_files
        from npu_testbed.html.pages import frontier_page

        if self.with_vela and self.plot is None and self.report is None:
            raise InputError("--with-vela was given without --plot or --report: it adds Vela's points to them, name a file.")
        require_outputs(self)
        if self.schedules is not None:
            require_folder(Path(self.schedules))
        outcome = _found(self, request_of(self, str(self.model), show, graphs=True), show)
        vela = () if outcome.comparison is None else outcome.comparison.points
        files = asked_files(
            (self.output, lambda: outcome.to_json().encode("ascii")),
            (self.plot, lambda: outcome.svg().encode("utf-8")),
            (self.report, lambda: frontier_page(outcome.frontier, vela, self.schedule_command(str(self.model)), show)),
        )
        write_files(files)
        return outcome


def _found(ask: Frontier, request: "Request", show: "Progress") -> "FrontierOutcome":
    """The frontier, with Vela's points if requested."""
    from npu_testbed.asked.request import run_of
    from npu_testbed.comparisons.comparison import Folders, compare
    from npu_testbed.outcomes.frontier import FrontierOutcome
    from npu_testbed.searches.frontiers import frontier

    folder = None if ask.schedules is None else Path(ask.schedules)
    if ask.with_vela:
        comparison = compare(request, run_of(ask, show), folders=Folders(schedules=folder))
        return FrontierOutcome(comparison.frontier, comparison)
    return FrontierOutcome(frontier(request, run_of(ask, show), folder))
