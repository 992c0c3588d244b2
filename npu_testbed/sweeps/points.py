"""Points of a design space: a network, an accelerator, a memory system and a budget each; and the answer to one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from cascader.ethosu.network.wanted_homes import wanted_home
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.answers import key_of
from npu_testbed.device_memory import arena_bound, system_of
from npu_testbed.memory_options import MemoryOptions, memory_system_json
from npu_testbed.models import Model
from npu_testbed.one_memory import require_one_memory
from npu_testbed.places import IN_ARENA, Places
from npu_testbed.settings import Setting, TriedValues, with_setting
from npu_testbed.timing import timing_json


class SweepPoint(Struct, frozen=True):
    """One schedule that is asked for; ``budget`` is the most bytes of its arena, None for no bound.

    ``places`` say what lives outside the arena, and how much may be done again.
    """

    model: Model
    accelerator: str
    system: MemorySystem
    settings: tuple[Setting, ...]
    budget: int | None
    optimise: str
    effort: str
    timing: TimingParameters = DEFAULT_TIMING
    places: Places = IN_ARENA

    @property
    def macs(self) -> int:
        """Multiply-accumulates a cycle."""
        return accelerator(self.accelerator).macs_per_cycle

    def plain(self) -> dict[str, Any]:
        """The point as values that JSON can hold."""
        return {
            "model": self.model.name,
            "model_sha256": self.model.sha256,
            "accelerator": self.accelerator,
            "memory_system": to_builtins(memory_system_json(self.system)),
            "settings": dict(self.settings),
            "budget_bytes": self.budget,
            "optimise": self.optimise,
            "effort": self.effort,
            "timing": timing_json(self.timing),
            "homes": list(self.places.homes),
            "recompute": None if self.places.recompute is None else float(self.places.recompute),
        }

    @property
    def key(self) -> str:
        """The digest of all that the answer follows from."""
        return key_of(["sweep", self.plain()], self.model.data)


class Answer(Struct, frozen=True):
    """Result of a point: the figures of its schedule in replay, or zeros and the reason in ``refused`` why there is no schedule.

    ``outside_bytes`` are those of tensors that live outside the arena, ``macs_again`` those of its ``macs`` that are done a second time.
    """

    arena_bytes: int = 0
    cycles: int = 0
    axi0_bytes: int = 0
    axi1_bytes: int = 0
    schedule_sha256: str = ""
    refused: str = ""
    outside_bytes: int = 0
    macs: int = 0
    macs_again: int = 0

    def plain(self) -> dict[str, Any]:
        """The answer as values that JSON can hold."""
        return asdict(self)


class Space(Struct, frozen=True):
    """Axes of a sweep, all combined with each other; ``memories`` are the memory systems before ``choices`` set their parameters.

    Without ``budgets`` the budget is what each memory mode grants, if it says how many bytes.
    """

    models: Sequence[Model]
    accelerators: Sequence[str]
    memories: Sequence[MemoryOptions]
    choices: Sequence[TriedValues] = ()
    budgets: Sequence[int | None] = ()
    optimise: str = "Performance"
    effort: str = "standard"
    timing: TimingParameters = DEFAULT_TIMING
    places: Places = IN_ARENA

    def systems(self, device: str) -> list[tuple[MemorySystem, tuple[Setting, ...], Sequence[int | None]]]:
        """Every memory system of an accelerator with its settings and its budgets; InputError if one of them cannot be."""
        found = []
        for memory in self.memories:
            base = system_of(device, memory)
            require_one_memory(base)
            budgets = self.budgets or (arena_bound(device, memory),)
            for values in product(*(choice.values for choice in self.choices)):
                settings = tuple((choice.key, value) for choice, value in zip(self.choices, values, strict=True))
                system = base
                for setting in settings:
                    system = with_setting(system, setting)
                for home in self.places.homes:
                    wanted_home(home, system)
                found.append((system, settings, budgets))
        return found


def points_of(space: Space) -> tuple[SweepPoint, ...]:
    """All points in a fixed order; InputError if a name or a value is wrong, before any of them is worked on."""
    found = [(name, space.systems(name)) for name in space.accelerators]
    return tuple(
        SweepPoint(
            model,
            accelerator(name).name,
            system,
            settings,
            budget,
            space.optimise,
            space.effort,
            space.timing,
            space.places,
        )
        for model in space.models
        for name, systems in found
        for system, settings, budgets in systems
        for budget in budgets
    )
