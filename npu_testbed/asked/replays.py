"""From an Ask about one schedule, ours or Vela's, to the Request that its replay means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec.structs import replace

from cascader.ethosu.schedule.file import from_json
from cascader.ethosu.search.request import PERFORMANCE, CompiledSource, ModelSource, Request, ScheduleSource, Source
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator
from npu_model.errors import InputError
from npu_model.front import later
from npu_testbed.asked.option import given, leave_out
from npu_testbed.asked.request import USUAL_MEMORY, SaysHomes, homes_of, npu_said, on_device
from npu_testbed.devices.device_memory import arena_bound, compiled_for
from npu_testbed.devices.memory_options import SaysMemory, as_set, memory_system, names_memory
from npu_testbed.devices.timing import load_timing
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.deployed_names import say_streams
from npu_testbed.models.input_shapes import ShapedSource
from npu_testbed.models.sources import BUILT, Model, load_model
from validation.reading import read_file, read_text

with later():
    from npu_model.compiled import containers  # a schedule is in none

if TYPE_CHECKING:
    from msgspec import Struct


class SaysReplay(SaysMemory, Protocol):
    """An Ask for a replay: memories, and the NPU's timing (None: a schedule's own, or the model's). It may have options of Vela's."""

    @property
    def timing(self) -> Any:
        """``--timing``."""


_USUAL = memory_system(USUAL_MEMORY)
"""Placeholder for the memories of a request; :func:`on_device` replaces it."""

_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
"""Beginning of a schedule file; a C array's brace is followed by a number."""

_OF_VELA = ("accelerator_config", "optimise", "arena_cache_size", "separate_io_regions")
"""Options that change Vela's compilation, but not an existing schedule."""


def is_schedule(text: str) -> bool:
    """Whether a source is a schedule file; InputError if it cannot be read."""
    return not text.startswith(BUILT) and read_file(text, "File")[:64].lstrip()[:1] == b"{"


def is_scheduled(text: str) -> bool:
    """Whether a source is a schedule file or a compiled network; InputError if it cannot be read."""
    if text.startswith(BUILT):
        return False
    return is_schedule(text) or containers.read_container(containers.unpacked(read_file(text, "File"))) is not None


def replay_of(ask: SaysReplay, text: str, progress: Progress = silent) -> Request:
    """The Request for the replay of a schedule file, or of Vela's schedule of any other source."""
    if not is_schedule(text):
        return replay_of_model(ask, text, progress)
    if isinstance(text, ShapedSource):
        raise InputError(f"{_name(text)} is scheduled already, so that {text.option} cannot change it: leave it out.")
    _refuse(ask, _name(text), "scheduled")
    return replay_of_schedule(ask, text, progress, name=_name(text))


def replay_of_schedule(ask: SaysReplay, text: str, progress: Progress = silent, name: str = "The schedule") -> Request:
    """The Request for the replay of a schedule file, on its own device and memories unless the Ask names others.

    InputError if the file is wrong, if neither the file nor the Ask has a memory system, or if the requested memory mode grants a smaller
    arena than the schedule needs.
    """
    progress(f"Reading {text}")
    plan = from_json(read_text(text, "Schedule"))
    _require_npu(ask, name, plan.accelerator)
    recorded = plan.provenance
    timing = recorded.timing if ask.timing is None else load_timing(str(ask.timing))
    request = Request(ScheduleSource(recorded.model, plan), plan.accelerator, _USUAL, timing=timing)
    if not names_memory(ask):
        if recorded.memory_system is None:
            raise InputError("The schedule holds no memory system: give one, such as --timing-adapter u55_high_end.")
        return replace(request, memory=as_set(ask, recorded.memory_system))
    granted = arena_bound(plan.accelerator, ask)
    if granted is not None and plan.arena_size > granted:
        raise InputError(
            f"The schedule needs an arena of {plan.arena_size} bytes, and memory mode {compiled_for(plan.accelerator, ask)[1]} grants "
            f"arena_cache_size={granted}: make the schedule for that memory mode, or choose another one."
        )
    return on_device(request, plan.accelerator, ask, granted)


def replay_of_model(ask: SaysReplay, text: str, progress: Progress = silent) -> Request:
    """The Request for the replay of Vela's schedule. A ``*_vela.tflite``, a ``.pte`` or a C array of either runs unchanged.

    Vela compiles any other model. InputError if the model or a name is wrong, or if an option cannot apply to a compiled file.
    """
    progress(f"Reading {text}")
    model = load_model(text)
    if _JSON_OBJECT.match(model.data):
        raise InputError(f"{model.name} is not a model but JSON: `npu-testbed simulate schedule` replays a schedule file.")
    source, device = _of_vela(ask, model)
    size = getattr(ask, "arena_cache_size", None)
    request = Request(
        source,
        device,
        _USUAL,
        optimise=getattr(ask, "optimise", None) or PERFORMANCE,
        homes=homes_of(ask) if isinstance(ask, SaysHomes) else (),
        timing=load_timing(None if ask.timing is None else str(ask.timing)),
    )
    return on_device(request, device, ask, arena_bound(device, ask, None if size is None else int(size)))


def _of_vela(ask: SaysReplay, model: Model) -> tuple[Source, str]:
    """The compiled network with its device, or the model to compile with the requested device."""
    data = containers.unpacked(model.data)
    network = containers.read_container(data)
    if network is None:
        said, _ = npu_said(ask)
        return ModelSource(model.name, data), DEFAULT_ACCELERATOR if said is None else accelerator(said).name
    _refuse(ask, model.name, "compiled")
    if containers.holds_payloads(data):
        say_streams(model.name, data)
    device = network.programs[0].accelerator
    _require_npu(ask, model.name, device)
    return CompiledSource(model.name, network), device


def _refuse(ask: SaysReplay, name: str, state: str) -> None:
    """InputError for options of a compilation, which would be ignored. A chip has its own accelerator."""
    said = given(cast("Struct", ask), [one for one in _OF_VELA if one != "accelerator_config" or ask.chip is None])
    if said:
        raise InputError(f"{name} is {state} already, so that {' and '.join(said)} cannot change it: {leave_out(said)}.")


def _require_npu(ask: SaysReplay, name: str, device: str) -> None:
    """InputError if the requested chip has another NPU than the device of the file."""
    said, chip = npu_said(ask)
    if chip is not None and said != device:
        raise InputError(f"{name} is for {device} and --chip {chip} has an {said}: compile the network for that chip, or drop --chip.")


def _name(text: str) -> str:
    return Path(text).name
