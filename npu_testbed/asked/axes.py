"""Axes of a sweep: an Ask for each combination of the listed values, and the Request that each Ask means."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from cascader.ethosu.network.wanted_homes import outer_memory, wanted_home
from cascader.ethosu.search.request import Request, Source
from npu_model.accelerator import accelerator_names, require_use
from npu_model.errors import InputError
from npu_model.memory.outer_arena import outer_homes
from npu_testbed.asked.ask import OneSearch, Search
from npu_testbed.asked.kinds import Optimise
from npu_testbed.asked.option import Declared, add_options, declared, given
from npu_testbed.asked.parser import Parser
from npu_testbed.asked.request import common_request, device_of, on_device
from npu_testbed.devices.device_memory import arena_bound, system_of
from npu_testbed.devices.settings import Setting, TriedValues, choice

Settings = tuple[Setting, ...]

EVERY = "all"
"""The word for every accelerator of the U55."""


class PointAsk(OneSearch[None], frozen=True, kw_only=True):
    """A point of a sweep: the Ask of `schedule`."""

    optimise: Optimise = None


_LISTED = ("accelerator_config", "arena_cache_size", "chip", "timing_adapter", "system_config", "memory_mode", "config", "set")
"""Fields of a point that have a listing option of their own, instead of ``--set``."""
_ONE_FOR_ALL = ("json", "progress", "jobs", "deadline", "vela_timeout", "input_shape", "layout")
"""Fields that change no answer of a point, or that belong to the models."""


def axes() -> dict[str, Declared]:
    """The fields of a point that ``--set`` may list: every field with a value and without a listing option of its own."""
    return {one.name: one for one in declared(PointAsk) if one.name not in (*_LISTED, *_ONE_FOR_ALL) and not one.is_switch}


def tried(text: str) -> TriedValues:
    """The axis in ``KEY=VALUE,VALUE``: a field of a point, or a parameter of a memory; InputError if it is neither.

    >>> tried("effort=quick,standard")
    TriedValues(key='effort', values=('quick', 'standard'))
    """
    key, _, values = text.partition("=")
    name = key.strip().removeprefix("--").replace("-", "_")
    if name not in axes():
        return choice(text, others=tuple(axes()))
    listed = tuple(value.strip() for value in values.split(","))
    if not all(listed):
        raise InputError(f"--set {name}={values} has an empty value: write {name}=VALUE,VALUE.")
    return TriedValues(name, tuple(dict.fromkeys(listed)))


def points_of(ask: Search[Any], sources: Sequence[Source]) -> tuple[Request, ...]:
    """All points in a fixed order; InputError if a name or a value is wrong, before any work."""
    found = list(_on_devices(ask, sources[0]))
    return tuple(replace(request, source=source) for source in sources for request in found)


def _on_devices(ask: Any, source: Source) -> Iterator[Request]:
    """The points of one network."""
    names = [one.name for one in declared(PointAsk) if one.name not in (*_LISTED, "json", "progress")]
    plain = PointAsk(**{name: getattr(ask, name) for name in names})
    said = tuple(ask.accelerator_config)
    devices = accelerator_names("u55") if said == (EVERY,) else said
    combinations = list(_combinations(ask, plain))
    for memories in _memories(ask):
        for device in (None,) if "chip" in memories else devices:
            for pairs, point in combinations:
                request = _on_memory(replace(point, accelerator_config=device, **memories), source, pairs)
                budgets = ask.arena_cache_size or (request.budget,)
                yield from (replace(request, budget=budget) for budget in budgets)


def _on_memory(point: PointAsk, source: Source, pairs: Settings) -> Request:
    """The Request of a point. Its memory system keeps its name; ``pairs`` names its settings, and the other settings."""
    device = device_of(point)
    require_use(device, "schedule")
    request = on_device(common_request(point, source), device, point, arena_bound(device, point))
    for home in outer_homes(request.memory, request.homes):
        wanted_home(home, request.memory)
    if request.spill is not None:
        outer_memory(request.spill, request.memory)
    name = system_of(device, replace(point, set=())).name
    return replace(request, memory=replace(request.memory, name=name), names=replace(request.names, settings=pairs))


def _memories(ask: Any) -> list[Mapping[str, Any]]:
    """Every chip, every timing adapter, and every system config with every memory mode, as fields of a point."""
    found: list[Mapping[str, Any]] = [{"chip": name} for name in ask.chip]
    found += [{"timing_adapter": name} for name in ask.timing_adapter]
    if ask.system_config or ask.memory_mode or ask.config is not None:
        pairs = product(ask.system_config or (None,), ask.memory_mode or (None,))
        found += [{"system_config": system, "memory_mode": mode, "config": ask.config} for system, mode in pairs]
    return found or [{}]


def _combinations(ask: Any, plain: PointAsk) -> Iterator[tuple[Settings, PointAsk]]:
    """The point with every combination of the values that ``--set`` lists, and each combination as pairs of a key and a value."""
    choices = [tried(text) for text in ask.set]
    if len({one.key for one in choices}) < len(choices):
        raise InputError("--set was given twice with the same key: give all of its values at once.")
    if twice := given(ask, [one.key for one in choices]):
        raise InputError(f"{twice[0]} cannot be combined with --set {twice[0][2:]}: give all of its values to --set.")
    fields = axes()
    parser = Parser(prog="npu-testbed sweep")
    add_options(parser, PointAsk, is_needed=False)
    for values in product(*(one.values for one in choices)):
        pairs = tuple((one.key, value) for one, value in zip(choices, values, strict=True))
        words = [f"{fields[key].flag}={value}" for key, value in pairs if key in fields and value != _NONE]
        said = vars(parser.parse_args(words, argparse.Namespace()))
        parameters = tuple(f"{key}={value}" for key, value in pairs if key not in fields)
        set_fields = {name: tuple(one) if isinstance(one, list) else one for name, one in said.items()}
        yield pairs, replace(plain, set=parameters, **set_fields)


_NONE = "none"
"""The value of ``--set`` for an option that is not given."""
