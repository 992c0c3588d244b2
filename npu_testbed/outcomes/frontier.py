"""The outcome of ``npu-testbed frontier``."""

from __future__ import annotations

from functools import partial
from html import escape
from pathlib import Path

from npu_testbed.comparisons.comparison import Comparison
from npu_testbed.comparisons.comparison_tables import convention
from npu_testbed.documents.document import extended
from npu_testbed.documents.frontier import FrontierDocument, FrontierPointEntry
from npu_testbed.ground.files import require_picture, write_file
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.outcomes.records import Records
from npu_testbed.reports.frontier import frontier_deadline, frontier_headline, frontier_json, frontier_text
from npu_testbed.reports.inputs_outputs import inputs_outputs_json, inputs_outputs_text, network_and_system
from npu_testbed.reports.tolerance import frontier_hint, frontier_within
from npu_testbed.searches.frontiers import Frontier, FrontierPoint
from npu_testbed.views.frontier_plot import comparison_svg, frontier_svg
from validation.layout import filled


class FrontierOutcome(Outcome, frozen=True):
    """The frontier of a network, with Vela's points if a ``comparison`` was requested."""

    frontier: Frontier
    comparison: Comparison | None = None

    @property
    def points(self) -> Records[FrontierPoint]:
        """The schedules by ascending memory: bytes, cycles, and the schedule itself."""
        return Records(self.frontier.points, partial(extended, FrontierPointEntry))

    @property
    def headline(self) -> str:
        """The smallest schedule and the fastest one."""
        return frontier_headline(self.frontier)

    def within(self, memory: int) -> FrontierPoint | None:
        """The fastest point that needs at most ``memory`` bytes; None if there is none."""
        return self.frontier.within(memory)

    def svg(self) -> str:
        """The frontier as a picture, with Vela's points if known."""
        return frontier_svg(self.frontier) if self.comparison is None else comparison_svg(self.comparison)

    def plot(self, path: str | Path) -> None:
        """Write the picture to an .svg file; InputError if that is impossible."""
        require_picture(path)
        write_file(path, self.svg().encode("utf-8"))

    def deadline_text(self, milliseconds: float) -> str:
        """The smallest schedule that meets a time of one inference."""
        return frontier_deadline(self.frontier, milliseconds)

    def within_text(self, within: float) -> str:
        """The smallest schedule within a share of the fastest one's cycles."""
        return frontier_within(self.frontier, within)

    def document(self) -> FrontierDocument:
        """The points and bounds."""
        network, system = network_and_system(self.frontier)
        return extended(FrontierDocument, frontier_json(self.frontier), inputs_outputs=inputs_outputs_json(network, system))

    def text(self) -> str:
        """The table of points."""
        network, system = network_and_system(self.frontier)
        homes = filled(f"At the first point: {inputs_outputs_text(network, system, self.frontier.points[0].memory)}.")
        beside = [] if self.comparison is None else [filled(line) for line in convention(self.comparison)]
        hint = [filled(text)] if (text := frontier_hint(self.frontier)) else []
        return "\n\n".join((filled(self.headline), frontier_text(self.frontier), homes, *hint, *beside))

    def _repr_html_(self) -> str:
        """The picture and the table."""
        return f"{self.svg()}<pre>{escape(self.text())}</pre>"
