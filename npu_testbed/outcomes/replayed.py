"""ReplayedOutcome: the common part of the outcomes of one replayed schedule."""

from __future__ import annotations

from abc import abstractmethod

from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.headline import deadline_sentence, headline


class ReplayedOutcome(Outcome, frozen=True):
    """An outcome about one schedule and its replay."""

    @property
    @abstractmethod
    def replayed(self) -> Simulation:
        """The replay."""

    @property
    def cycles(self) -> int:
        """NPU cycles of the replay."""
        return self.replayed.replay.cycles

    @property
    def arena_bytes(self) -> int:
        """Bytes that the plan reserves for feature maps."""
        return self.replayed.planned_bytes

    @property
    def headline(self) -> str:
        """Time, bytes, and whether they fit."""
        return headline(self.replayed)

    def deadline_text(self, milliseconds: float) -> str:
        """Whether the schedule meets a time per inference."""
        return deadline_sentence(self.cycles, self.replayed.system.clock_hz, milliseconds)
