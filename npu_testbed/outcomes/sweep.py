"""The outcome of ``npu-testbed sweep``."""

from __future__ import annotations

from npu_testbed.comparisons.sweeps.run import Result
from npu_testbed.comparisons.sweeps.sweep_tables import sweep_json, sweep_text
from npu_testbed.documents.sweep import SweepDocument, SweepPointEntry
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.outcomes.records import Records
from npu_testbed.views.sweep_plot import sweep_svg


class SweepOutcome(Outcome, frozen=True):
    """All points of a sweep. The text says which points meet a ``deadline`` in milliseconds (None: no deadline)."""

    results: tuple[Result, ...]
    deadline: float | None = None

    @property
    def passed(self) -> bool:
        """Whether any point has a schedule."""
        return any(not one.answer.refused for one in self.results)

    @property
    def points(self) -> Records[SweepPointEntry]:
        """The points in their order, each with its options and its answer."""
        return Records(self.document().points)

    def svg(self) -> str:
        """The points as a picture."""
        return sweep_svg(self.results)

    def document(self) -> SweepDocument:
        """Each point."""
        return sweep_json(self.results)

    def text(self) -> str:
        """A table of the points, and the fastest within each limit."""
        return sweep_text(self.results, self.deadline)
