"""Results: findings in a folder, and while a network is examined what its search has answered: a run goes on where another one ended."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_testbed.answers import FOLDER, Answers, key_of
from npu_testbed.device_memory import arena_bound, compiled_for, system_of
from npu_testbed.memory_options import MemoryOptions, memory_system_sha256
from npu_testbed.places import IN_ARENA, Places
from npu_testbed.portfolio.verdict import Examined, from_json
from validation.portfolio import build

SCHEMA = 3
"""Version of a finding in a folder; raised whenever a field changes its meaning."""


class Results(Struct, frozen=True):
    """A folder of findings for one accelerator and memory system."""

    folder: Path
    accelerator: str
    memory: MemoryOptions
    verified: bool
    places: Places = IN_ARENA

    def key(self, name: str) -> str:
        """The key of the finding of the network ``name``, which begins with what people look for."""
        bound = arena_bound(self.accelerator, self.memory)
        question = {
            "schema": SCHEMA,
            "accelerator": accelerator(self.accelerator).name,
            "memory system": memory_system_sha256(system_of(self.accelerator, self.memory)),
            "vela": [str(option) for option in (*compiled_for(self.accelerator, self.memory), self.memory.config, bound)],
            "verified": self.verified,
            "places": [list(self.places.homes), None if self.places.recompute is None else str(self.places.recompute)],
        }
        return f"{name}-{self.accelerator}-{key_of(question, build(name))[:16]}"

    def find(self, name: str) -> Examined | None:
        """The finding in the folder, None if there is none."""
        return Answers(self.folder).find(self.key(name), from_json)

    def search(self, name: str) -> Answers:
        """The answers of the search of a network, while it is examined."""
        return Answers(self.folder / f"{FOLDER}-{self.key(name)}")

    def write(self, finding: Examined) -> None:
        """Write a finding, in place of what its search answered; what failed is not written, so that it is tried again."""
        if not finding.failure:
            Answers(self.folder).keep(self.key(finding.network), finding.to_json())
            self.search(finding.network).remove()
