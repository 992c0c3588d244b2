"""From an Ask to the Request that it means: the one place that looks names up."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from cascader.ethosu.search.effort import STANDARD
from cascader.request import PERFORMANCE, SIZE, MemoryNames, ModelSource, Request, Run, Source
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, require_use
from npu_model.errors import InputError
from npu_model.front import later
from npu_testbed.asked.ask import OneSearch, OnMemory, Search
from npu_testbed.device_memory import arena_bound, compiled_for, system_of
from npu_testbed.endings import say
from npu_testbed.home_file import home_file
from npu_testbed.input_shapes import ShapedSource
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.models import load_model
from npu_testbed.progress import Progress, silent
from npu_testbed.settings import setting
from npu_testbed.te_models import TeSource, is_te
from npu_testbed.timing import load_timing
from npu_testbed.versions import tool_versions

if TYPE_CHECKING:
    from npu_testbed import chips
else:
    chips = later("npu_testbed.chips")  # few name one

__all__ = [
    "TeSource",
    "common_request",
    "device_of",
    "homes_of",
    "memory_options",
    "of_chip",
    "on_device",
    "operators_of",
    "read_source",
    "recompute_of",
    "request_of",
    "requested", "requests_of",
    "run_of",
    "shaped",
    "system_of",
]  # fmt: skip


class _OfHomes(Protocol):
    """An Ask with homes."""

    @property
    def home(self) -> Any: ...


class _OfMemory(Protocol):
    """An Ask with the options of one memory system."""

    @property
    def chip(self) -> Any: ...
    @property
    def timing_adapter(self) -> Any: ...
    @property
    def system_config(self) -> Any: ...
    @property
    def memory_mode(self) -> Any: ...
    @property
    def config(self) -> Any: ...
    @property
    def set(self) -> Any: ...


_CHIP_HAS = ("timing_adapter", "system_config", "config")
"""Options whose place a chip takes; others override what it has."""


def memory_options(ask: _OfMemory) -> MemoryOptions:
    """The requested memory system, or the chip's; InputError if both are given."""
    settings = tuple(setting(text) for text in ask.set)
    if len(dict(settings)) < len(settings):
        raise InputError("--set was given twice with the same key: give each once.")
    config = _one_file(ask.config)
    said = MemoryOptions(_text(ask.timing_adapter), ask.system_config, ask.memory_mode, config, settings)
    if ask.chip is None:
        return said
    return of_chip(chips.load_chip(str(ask.chip)), said)


def _one_file(config: Any) -> Path | None:
    """The configuration file; InputError if there are several, as `compile` takes them where Vela does."""
    if isinstance(config, tuple):
        if len(config) > 1:
            raise InputError(f"--config was given {len(config)} times: write the sections that are needed into one file.")
        config = config[0]
    return None if config is None else Path(config)


def of_chip(chip: chips.Chip, said: MemoryOptions) -> MemoryOptions:
    """The memory system of a chip in the memory mode that was ``said``; InputError if another memory system was said."""
    for option in _CHIP_HAS:
        if getattr(said, option) is not None:
            spelled = f"--{option.replace('_', '-')}"
            raise InputError(f"{spelled} cannot be combined with --chip {chip.name}, which has a memory system: drop one of them.")
    mode = chip.memory_mode if said.memory_mode is None else said.memory_mode
    return MemoryOptions(chip.timing_adapter, chip.system_config, mode, chip.config, said.settings)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def npu_said(ask: Any) -> tuple[str | None, str | None]:
    """The requested accelerator, by its name or by a chip's, and the chip; None if not given."""
    chip = None if ask.chip is None else str(ask.chip)
    given = getattr(ask, "accelerator_config", None)
    return (chips.load_chip(chip).accelerator if given is None and chip is not None else given), chip


def device_of(ask: OneSearch[Any]) -> str:
    """The requested accelerator, the chip's, or the command's default."""
    given, _ = npu_said(ask)
    return accelerator(ask.default_device if given is None else given).name


def homes_of(ask: _OfHomes) -> tuple[str, ...]:
    """The requested homes, as pairs WHAT=MEMORY; homes from a file in the file's order."""
    found: list[str] = []
    for text in ask.home:
        found += [text] if "=" in text else home_file(text)
    return tuple(found)


def operators_of(ask: Search[Any]) -> tuple[str, ...]:
    """The builtin operators that are to stay on the CPU."""
    return tuple(name.strip() for words in ask.ignore_ops for name in words.split(",") if name.strip())


def recompute_of(ask: Search[Any]) -> Fraction | None:
    """The bound of multiply-accumulates (None: the search's own); InputError for two bounds."""
    if ask.no_recompute and ask.recompute is not None:
        raise InputError(f"--no-recompute cannot be combined with --recompute {float(ask.recompute):g}: drop one of them.")
    return Fraction(1) if ask.no_recompute else None if ask.recompute is None else Fraction(ask.recompute)


def shaped(source: Any, shapes: Any) -> str:
    """The text of a model's source with the shapes of its inputs."""
    given = tuple(shapes)
    return ShapedSource(source, given) if given else str(source)


def read_source(text: str, *, graphs: bool = False) -> Source:
    """The model that a text names; where ``graphs`` are taken, Tensor Expressions too. InputError if there is none."""
    if graphs and is_te(text):
        return TeSource(text)
    model = load_model(text)
    return ModelSource(model.name, model.data, tool_versions(()))


def common_request(ask: Search[Any], source: Source) -> Request:
    """The Request whose device, memory and budget are those of one of several points, and are put in by :func:`msgspec.structs.replace`."""
    timing = getattr(ask, "timing", None)
    request = Request(
        source=source,
        device="",
        memory=MemoryOptions().memory_system(),
        optimise=SIZE if getattr(ask, "optimise", None) == SIZE else PERFORMANCE,
        cascade=not (getattr(ask, "no_cascade", False) or getattr(ask, "disable_cascading", False)),
        effort=ask.effort or STANDARD,
        rungs=getattr(ask, "rungs", None),
        recompute=recompute_of(ask),
        homes=homes_of(ask),
        spill=ask.spill,
        ignore_ops=operators_of(ask),
        timing=load_timing(None if timing is None else Path(timing)),
        within=Fraction(getattr(ask, "within", None) or 0),
    )
    request.check()
    return request


def request_of(ask: OneSearch[Any], text: str, progress: Progress = silent, *, graphs: bool = False) -> Request:
    """The Request for the model that ``text`` names; InputError for a name or a value that there is not.

    A memory mode that bounds the arena is said, if no option does.
    """
    device = device_of(ask)
    require_use(device, "schedule")
    options = memory_options(ask)
    budget = arena_bound(device, options, None if ask.arena_cache_size is None else int(ask.arena_cache_size))
    if ask.arena_cache_size is None and budget is not None and ask.command != "check":
        mode = compiled_for(device, options)[1]
        say("note", f"arena_cache_size of memory mode {mode} bounds the arena to {budget:,} bytes; --arena-cache-size overrides it.")
    progress(f"Reading {text}")
    return on_device(common_request(ask, read_source(shaped(text, ask.input_shape), graphs=graphs)), device, options, budget)


def on_device(common: Request, device: str, options: MemoryOptions, budget: int | None) -> Request:
    """A Request for a device with the memories that the options mean for it."""
    names = MemoryNames(*compiled_for(device, options), options.config, options.settings)
    return replace(common, device=device, memory=system_of(device, options), names=names, budget=budget)


def requested(text: str, device: str = DEFAULT_ACCELERATOR, options: MemoryOptions = NO_OPTIONS, **fields: Any) -> Request:
    """The Request for a model on a device with its memories, and other fields of a Request by their names.

    >>> requested("zoo:tiny_conv", budget=8192).device
    'ethos-u55-128'
    """
    require_use(device, "schedule")
    source = read_source(text, graphs=True)
    plain = Request(source, accelerator(device).name, MemoryOptions().memory_system(), **fields)
    return on_device(plain, plain.device, options, arena_bound(plain.device, options, plain.budget))


def requests_of(ask: OnMemory[Any], texts: Iterable[str], devices: Iterable[str], progress: Progress = silent) -> tuple[Request, ...]:
    """A Request for each device and each model, in this order."""
    sources = []
    for text in texts:
        progress(f"Reading {text}")
        sources.append(read_source(text))
    options, found = memory_options(ask), []
    for name in devices:
        require_use(name, "schedule")
        device = accelerator(name).name
        found += [on_device(common_request(ask, source), device, options, arena_bound(device, options)) for source in sources]
    return tuple(found)


def run_of(ask: Search[Any], progress: Progress = silent) -> Run:
    """The way in which the search is carried out."""
    return Run(ask.jobs, progress)
