"""The outcomes of ``npu-testbed diff`` and ``npu-testbed check``: a schedule against another schedule, or against bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET

from npu_testbed.differences.bars import Bar, Baseline, check_json
from npu_testbed.differences.difference_tables import diff_json, diff_text
from npu_testbed.differences.summary import check_markdown, check_text
from npu_testbed.documents.differences import CheckDocument, DiffDocument
from npu_testbed.energy import Energy, energy_json, energy_text
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.outcomes.replayed import ReplayedOutcome
from npu_testbed.replays.simulation import Simulation


class Energies(NamedTuple):
    """Energy of both sides by a named table."""

    table: str
    before: Energy
    after: Energy


class DiffOutcome(Outcome, frozen=True):
    """Two replays, and their differences.

    ``energies`` is None if not requested. The text shows the ``most`` layers that differ most (None: all).
    """

    before: Simulation
    after: Simulation
    energies: Energies | None = None
    most: int | None = None

    def document(self) -> DiffDocument:
        """Both sides, and each layer that differs."""
        return diff_json(self.before, self.after, UNSET if self.energies is None else energy_json(*self.energies))

    def text(self) -> str:
        """The whole, and the layers that differ most."""
        sections = [diff_text(self.before, self.after, self.most)]
        return "\n\n".join(sections if self.energies is None else [*sections, energy_text(*self.energies)])


class CheckOutcome(ReplayedOutcome, frozen=True):
    """A replay and the ``bars`` that it must keep, including the bars of a ``baseline`` (None: no baseline).

    ``markdown`` makes the text a summary for a pull request; ``said`` is appended to it.
    """

    simulation: Simulation
    bars: Sequence[Bar]
    baseline: Baseline | None = None
    markdown: bool = False
    said: str = ""

    @property
    def replayed(self) -> Simulation:
        """The replay."""
        return self.simulation

    @property
    def passed(self) -> bool:
        """Whether all bars are met."""
        return all(bar.is_met for bar in self.bars)

    def deadline_text(self, milliseconds: float) -> str:  # noqa: ARG002  # a deadline is one of the bars
        """No text, because a bar has the verdict."""
        return ""

    def document(self) -> CheckDocument:
        """The figures, and each bar."""
        return check_json(self.simulation, self.bars)

    def text(self) -> str:
        """Each bar with its verdict."""
        shown = check_markdown if self.markdown else check_text
        return "\n\n".join(filter(None, [shown(self.simulation, self.bars, self.baseline), self.said]))
