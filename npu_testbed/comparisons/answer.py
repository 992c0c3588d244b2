"""The best answer of our frontier to one of Vela's points."""

from __future__ import annotations

from msgspec import Struct

from npu_testbed.replays.vela_runs import VelaPoint
from npu_testbed.searches.frontiers import FrontierPoint

AT_SIZE_CYCLES = "at Vela Size's cycles or fewer"
SMALLEST = "smallest"
AT_PERFORMANCE_CYCLES = "at Vela Performance's cycles or fewer"
IN_PERFORMANCE_BYTES = "at Vela Performance's bytes or fewer"

SLOWEST = 1.01
"""Most cycles, per cycle of Vela's, that count as no slower."""


class BestAnswer(Struct, frozen=True):
    """The answer of our frontier to one of Vela's points; None if no schedule of ours meets the condition.

    ``condition`` says which limit ours must keep; ``vela`` is the point that sets the limit.
    """

    condition: str
    vela: VelaPoint
    ours: FrontierPoint | None

    @property
    def memory_ratio(self) -> float | None:
        """Our bytes per byte of Vela's."""
        return None if self.ours is None else self.ours.memory / self.vela.memory

    @property
    def cycles_ratio(self) -> float | None:
        """Our cycles per cycle of Vela's."""
        return None if self.ours is None else self.ours.cycles / self.vela.cycles
