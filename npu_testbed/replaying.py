"""The replay that judges what a search has found: the fast recurrence, which is equal to the simulator to the cycle."""

from __future__ import annotations

from msgspec import Struct

from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import quick_cycles


class QuickReplay(Struct, frozen=True):
    """A replay on the memories of ``system``, with the NPU's ``timing``."""

    system: MemorySystem
    timing: TimingParameters = DEFAULT_TIMING

    def __call__(self, network: CompiledNetwork) -> int:
        """NPU cycles."""
        return quick_cycles(network, self.system, self.timing)
