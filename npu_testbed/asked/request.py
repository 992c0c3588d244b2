"""From an Ask to the Request that it means: the one place that looks names up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec.structs import replace

from cascader.ethosu.search.effort import STANDARD
from cascader.ethosu.search.request import PERFORMANCE, SIZE, ModelSource, Request, Run, Source
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, require_use
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.printable import shown
from npu_model.registered import FORMS, registered_tools
from npu_model.toml_text import parse_toml
from npu_testbed.asked.ask import OneSearch, OnMemory, Search
from npu_testbed.asked.commands import command_of
from npu_testbed.devices.device_memory import arena_bound, compiled_for, names_of, system_of
from npu_testbed.devices.memory_options import SaysMemory, memory_system
from npu_testbed.devices.timing import load_timing
from npu_testbed.ground.endings import say
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.ground.versions import tool_versions
from npu_testbed.models.input_shapes import ShapedSource
from npu_testbed.models.sources import load_model
from npu_testbed.models.te_models import TeSource, is_te
from validation.reading import read_configuration

with later():
    import difflib

    from npu_model.tflite import model as models
    from npu_testbed.devices import chips  # few name one

_OPERATOR = re.compile("[A-Z0-9_]+")

USUAL_MEMORY = OnMemory[Any]()
"""An Ask that names no memories."""


@runtime_checkable
class SaysHomes(Protocol):
    """An Ask with homes."""

    @property
    def home(self) -> Any:
        """``--home``."""


class ChangesModels(Protocol):
    """An Ask with changes of the models that it reads."""

    @property
    def input_shape(self) -> Any:
        """``--input-shape``."""

    @property
    def layout(self) -> Any:
        """``--layout``."""


def npu_said(ask: Any) -> tuple[str | None, str | None]:
    """The requested accelerator, by its name or by a chip's, and the chip; None if not given."""
    chip = None if ask.chip is None else str(ask.chip)
    given = getattr(ask, "accelerator_config", None)
    return (chips.load_chip(chip).accelerator if given is None and chip is not None else given), chip


def device_of(ask: OneSearch[Any]) -> str:
    """The requested accelerator, the chip's, or the command's default."""
    given, _ = npu_said(ask)
    return accelerator(ask.default_device if given is None else given).name


def _home_file(path: str) -> list[str]:
    """The homes in a TOML file of lines ``NAME = "MEMORY"``, as pairs WHAT=MEMORY; InputError if it is not such a file."""
    table = parse_toml(read_configuration(path, "Home file"), f"The home file {shown(path)}", 'write NAME = "MEMORY" lines')
    wrong = next((key for key, value in table.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise InputError(f'The home file {shown(path)} gives {shown(wrong)} no memory\'s name: write {shown(wrong)} = "MEMORY".')
    return [f"{key}={value}" for key, value in table.items()]


def homes_of(ask: SaysHomes) -> tuple[str, ...]:
    """The requested homes, as pairs WHAT=MEMORY; homes from a file in the file's order."""
    found: list[str] = []
    for text in ask.home:
        found += [text] if "=" in text else _home_file(text)
    return tuple(found)


def operators_of(ask: Search[Any]) -> tuple[str, ...]:
    """The builtin operators that must stay on the CPU; InputError for a name that is not a builtin operator, or for none."""
    found = tuple(name.strip() for words in ask.ignore_ops for name in words.split(",") if name.strip())
    for name in found:
        if not _OPERATOR.fullmatch(name):
            raise InputError(f"--ignore-ops {shown(name)} is not an operator: give names of A-Z, 0-9 and _, such as SOFTMAX.")
        if name not in models.BUILTIN_NAMES:
            raise InputError(f"--ignore-ops {name} is not a builtin operator of TFLite: give one such as {_closest(name)}.")
    if ask.ignore_ops and not found:
        raise InputError(f"--ignore-ops {shown(ask.ignore_ops[0])} names no operator: give one such as SOFTMAX, or leave the option out.")
    return found


def _closest(name: str) -> str:
    """The builtin operator whose name is most like ``name``."""
    return (difflib.get_close_matches(name, sorted(models.BUILTIN_NAMES), 1) or ["SOFTMAX"])[0]


def recompute_of(ask: Search[Any]) -> Fraction | None:
    """The bound of multiply-accumulates (None: the search's own); InputError for two bounds."""
    if ask.no_recompute and ask.recompute is not None:
        raise InputError(f"--no-recompute cannot be combined with --recompute {float(ask.recompute):g}: drop one of them.")
    return Fraction(1) if ask.no_recompute else None if ask.recompute is None else Fraction(ask.recompute)


def shaped(source: Any, ask: ChangesModels) -> str:
    """A model's source with the requested shapes and layouts."""
    shapes, layouts = tuple(ask.input_shape), tuple(ask.layout)
    return ShapedSource(source, shapes, layouts) if shapes or layouts else str(source)


def shaped_model(ask: ChangesModels, model: Any) -> str | None:
    """Like :func:`shaped`, for a model that may be missing (None); InputError if a change is requested without a model."""
    if model is not None:
        return shaped(model, ask)
    for option, values in (("--input-shape", ask.input_shape), ("--layout", ask.layout)):
        if values:
            raise InputError(f"{option} was given without a model that is read: give the model, or leave it out.")
    return None


def read_source(text: str, *, graphs: bool = False) -> Source:
    """The model of a source, or a graph of Tensor Expressions where ``graphs`` are allowed. InputError if there is none."""
    if graphs and is_te(text):
        return TeSource(text)
    model = load_model(text)
    return ModelSource(model.name, model.data, tool_versions(registered_tools(FORMS)))


def common_request(ask: Search[Any], source: Source) -> Request:
    """The Request that several points share. The caller fills in device, memory and budget with :func:`msgspec.structs.replace`."""
    timing = getattr(ask, "timing", None)
    request = Request(
        source=source,
        device="",
        memory=memory_system(USUAL_MEMORY),
        optimise=SIZE if getattr(ask, "optimise", None) == SIZE else PERFORMANCE,
        cascade=not (getattr(ask, "no_cascade", False) or getattr(ask, "disable_cascading", False)),
        effort=ask.effort or STANDARD,
        rungs=getattr(ask, "rungs", None),
        recompute=recompute_of(ask),
        homes=homes_of(ask),
        spill=ask.spill,
        keep_inputs=ask.keep is not None,
        ignore_ops=operators_of(ask),
        timing=load_timing(None if timing is None else Path(timing)),
        within=Fraction(getattr(ask, "within", None) or 0),
    )
    request.check()
    return request


def request_of(ask: OneSearch[Any], text: str, progress: Progress = silent, *, graphs: bool = False) -> Request:
    """The Request for the model ``text``; InputError for an unknown name or value.

    If only the memory mode bounds the arena, a note says so.
    """
    device = device_of(ask)
    require_use(device, "schedule")
    budget = arena_bound(device, ask, None if ask.arena_cache_size is None else int(ask.arena_cache_size))
    if ask.arena_cache_size is None and budget is not None and command_of(type(ask)).name != "check":
        mode = compiled_for(device, ask)[1]
        say("note", f"arena_cache_size of memory mode {mode} bounds the arena to {budget:,} bytes; --arena-cache-size overrides it.")
    progress(f"Reading {text}")
    return on_device(common_request(ask, read_source(shaped(text, ask), graphs=graphs)), device, ask, budget)


def on_device(common: Request, device: str, ask: SaysMemory, budget: int | None) -> Request:
    """A Request for a device with the memories that the Ask means for it."""
    return replace(common, device=device, memory=system_of(device, ask), names=names_of(device, ask), budget=budget)


def requested(text: str, device: str = DEFAULT_ACCELERATOR, ask: SaysMemory = USUAL_MEMORY, **fields: Any) -> Request:
    """The Request for a model on a device with the memories of an Ask, and other fields of a Request by their names.

    >>> requested("zoo:tiny_conv", budget=8192).device
    'ethos-u55-128'
    """
    require_use(device, "schedule")
    source = read_source(text, graphs=True)
    plain = Request(source, accelerator(device).name, memory_system(USUAL_MEMORY), **fields)
    return on_device(plain, plain.device, ask, arena_bound(plain.device, ask, plain.budget))


def requests_of(ask: OnMemory[Any], texts: Iterable[str], devices: Iterable[str], progress: Progress = silent) -> tuple[Request, ...]:
    """A Request for each device and each model, in this order."""
    sources = []
    for text in texts:
        progress(f"Reading {text}")
        sources.append(read_source(text))
    found: list[Request] = []
    for name in devices:
        require_use(name, "schedule")
        device = accelerator(name).name
        found += [on_device(common_request(ask, source), device, ask, arena_bound(device, ask)) for source in sources]
    return tuple(found)


def run_of(ask: Search[Any], progress: Progress = silent) -> Run:
    """The way to carry out the search."""
    return Run(ask.jobs, progress)
