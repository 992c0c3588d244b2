"""A form of a network as it is searched: sent to other processes once, and planned there once."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cached_property, lru_cache

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.schedule import Provenance
from npu_model.memory.system import MemorySystem

_KEPT = 8
"""Forms that a process keeps, with all that was worked out for earlier limits."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a form among all ``count`` of a search."""

    number: int
    count: int


class Form:
    """One form of a network for a device with its memories."""

    def __init__(
        self, place: Place, network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions, provenance: Provenance
    ) -> None:
        self.place = place
        self.network = network
        self.accelerator = accelerator
        self.system = system
        self.options = options
        self.provenance = provenance

    @cached_property
    def cascader(self) -> Cascader:
        """The plans, made when they are first asked for."""
        return Cascader(self.network, self.accelerator, self.system, self.options, self.provenance)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self.place, self.network, self.accelerator, self.system, self.options, self.provenance))

    def homes(self, processes: int) -> range:
        """Numbers of the processes that plan this form: one if there are more forms than processes, else as many as each form can have."""
        classes = min(processes, self.place.count)
        return range(self.place.number % classes, processes, classes)

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        """The same bytes each time, by which a process knows what it has."""
        return _received, (self._pickled,)


@lru_cache(maxsize=_KEPT)
def _received(pickled: bytes) -> Form:
    """The form as this process has it: what was worked out for one limit is there for the next, and changes no answer."""
    return Form(*pickle.loads(pickled))  # noqa: S301  # made by this program a moment ago
