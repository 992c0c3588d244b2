"""Points of a sweep: a Request for every network, accelerator, memory system and budget; and the answer to one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.request import MemoryNames, ModelSource, Request, Source
from npu_model.accelerator import accelerator, require_use
from npu_model.memory.system import MemorySystem
from npu_testbed.answers import key_of_request
from npu_testbed.device_memory import arena_bound, compiled_for, system_of
from npu_testbed.memory_options import MemoryOptions, memory_system_json
from npu_testbed.one_memory import outer_homes
from npu_testbed.settings import TriedValues, with_setting
from npu_testbed.timing import timing_json


def macs_of(request: Request) -> int:
    """Multiply-accumulates a cycle of the accelerator."""
    return accelerator(request.device).macs_per_cycle


def point_json(request: Request) -> dict[str, Any]:
    """A point as values that JSON can hold."""
    source = request.source
    assert isinstance(source, ModelSource)  # noqa: S101  # a sweep is about models
    return {
        "model": source.name,
        "model_sha256": source.sha256,
        "accelerator": request.device,
        "memory_system": to_builtins(memory_system_json(request.memory)),
        "settings": dict(request.names.settings),
        "budget_bytes": request.budget,
        "optimise": request.optimise,
        "effort": request.effort,
        "timing": timing_json(request.timing),
        "homes": list(request.homes),
        "recompute": None if request.recompute is None else float(request.recompute),
        "within_percent": float(request.within * 100),
    }


def key_of_point(request: Request) -> str:
    """The digest of all that the answer to a point follows from."""
    return key_of_request("sweep", request)


class Answer(Struct, frozen=True):
    """Result of a point: the figures of its schedule in replay, or zeros and in ``refused`` the reason without a schedule.

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

    Each memory system goes with an accelerator of its own, where it says one (a chip), or with all ``accelerators``. Without ``budgets``
    the budget is what each memory mode grants, if it says how many bytes.
    """

    sources: Sequence[Source]
    accelerators: Sequence[str]
    memories: Sequence[tuple[str | None, MemoryOptions]]
    choices: Sequence[TriedValues] = ()
    budgets: Sequence[int | None] = ()

    def systems(self, homes: tuple[str, ...]) -> list[tuple[str, MemorySystem, MemoryNames, Sequence[int | None]]]:
        """Every accelerator with every memory system, its names and its budgets; InputError if one of them cannot be."""
        found = []
        for chip, said in self.memories:
            for name in self.accelerators if chip is None else (chip,):
                require_use(name, "schedule")
                device = accelerator(name).name
                base = system_of(device, said)
                budgets = self.budgets or (arena_bound(device, said),)
                for values in product(*(choice.values for choice in self.choices)):
                    settings = tuple((choice.key, value) for choice, value in zip(self.choices, values, strict=True))
                    system = base
                    for setting in settings:
                        system = with_setting(system, setting)
                    for home in outer_homes(system, homes):
                        wanted_home(home, system)
                    found.append((device, system, MemoryNames(*compiled_for(device, said), said.config, settings), budgets))
        return found


def points_of(space: Space, common: Request) -> tuple[Request, ...]:
    """All points in a fixed order, with what they have in ``common``; InputError if a name or a value is wrong, before any work."""
    return tuple(
        replace(common, source=source, device=device, memory=system, names=names, budget=budget)
        for source, (device, system, names, budgets) in product(space.sources, space.systems(common.homes))
        for budget in budgets
    )
