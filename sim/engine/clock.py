"""The simulation clock: a SimPy environment whose time is whole NPU cycles."""

from __future__ import annotations

import simpy


class Clock(simpy.Environment):
    """SimPy's environment; every delay is an integer number of cycles."""

    @property
    def cycle(self) -> int:
        """The current cycle."""
        return int(self.now)
