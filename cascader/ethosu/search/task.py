"""What is searched: a network for a device with its memories, and the replay that judges what is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cascader.ethosu.cascade import Candidate
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.rewrites import variants
from cascader.ethosu.schedule.schedule import Provenance, Schedule
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem

__all__ = ["Candidate", "Origin", "Point", "Replay", "Show", "Task", "silent"]

Replay = Callable[[CompiledNetwork], int]
"""Cycles of the Programs of a network. It is sent to other processes, so that it can be pickled."""

Show = Callable[[str], None]
"""Told what is being done now."""


def silent(_doing: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A network with where it came from."""

    network: Network = field(repr=False)
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched, and how; ``replay`` gives the cycles that count, on the memories of ``system`` and in the provenance's timing.

    ``others`` are other networks of the same mathematics, from another legaliser, that are searched too.
    """

    network: Network = field(repr=False)
    accelerator: str
    system: MemorySystem
    replay: Replay
    provenance: Provenance = field(default_factory=Provenance)
    options: CascadeOptions = field(default_factory=CascadeOptions)
    others: tuple[Origin, ...] = ()

    def variants(self) -> tuple[Origin, ...]:
        """Every network as it is searched."""
        origins = (Origin(self.network, self.provenance), *self.others)
        return tuple(
            Origin(network, origin.provenance)
            for origin in origins
            for network in variants(origin.network, self.accelerator, self.system, self.options, origin.provenance.timing)
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A replayed schedule: ``memory`` is its arena in bytes, ``cycles`` are the replay's, ``estimate`` those that the search expected."""

    memory: int
    cycles: int
    estimate: int
    schedule: Schedule = field(repr=False)
