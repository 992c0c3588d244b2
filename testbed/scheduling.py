"""From a model to a schedule file, and back from the file to a checked schedule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cascader.ethosu.schedule import Provenance, Schedule
from cascader.ethosu.schedule_file import from_json, to_json
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator
from npu_model.errors import InputError
from testbed import VERSION
from testbed.files import read_text, write_file
from testbed.memory_options import MemoryOptions, memory_system_sha256
from testbed.memory_use import require_one_memory
from testbed.models import load_model

NO_OPTIONS = MemoryOptions()

Tools = tuple[tuple[str, str], ...]
"""Names and versions."""

Progress = Callable[[str], None]
"""Told what is being done now."""


def silent(_doing: str) -> None:
    """Progress that nobody watches."""


def tool_versions(others: Tools) -> Tools:
    """Versions of the tools that took part; ours is the one that runs now."""
    return tuple(sorted((dict(others) | {"npu-testbed": VERSION}).items()))


def schedule(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    *,
    arena_cache_size: int | None = None,
    memory: MemoryOptions = NO_OPTIONS,
    progress: Progress = silent,
) -> Schedule:
    """The layer-by-layer schedule of a model (a path or ``zoo:NAME``), with its provenance.

    InputError if the model or a name is wrong, or the arena would exceed ``arena_cache_size`` bytes.
    """
    from cascader.ethosu.layer_by_layer import schedule_layer_by_layer  # noqa: PLC0415  # a replay alone does not need the scheduler
    from cascader.frontends.vela import import_network  # noqa: PLC0415  # nor the compiler
    from cascader.frontends.vela.compiler import vela_version  # noqa: PLC0415  # nor the compiler

    device, system = accelerator(accelerator_config), memory.memory_system()
    require_one_memory(system)
    _check_budget(arena_cache_size)
    progress(f"Reading {source}")
    model = load_model(source)
    progress(f"Compiling {model.name} with Vela as legaliser")
    network = import_network(model.data, device.name)
    progress(f"Scheduling {model.name}")
    provenance = Provenance(
        model.name, model.sha256, tool_versions((("ethos-u-vela", vela_version()),)), system.name, memory_system_sha256(system)
    )
    return schedule_layer_by_layer(network, device.name, arena_cache_size=arena_cache_size, provenance=provenance)


def _check_budget(arena_cache_size: int | None) -> None:
    if arena_cache_size is not None and arena_cache_size < 1:
        raise InputError(f"--arena-cache-size {arena_cache_size} is below 1: give a number of bytes.")


def write_schedule(plan: Schedule, path: str | Path) -> None:
    """Write a schedule file, whole or not at all."""
    write_file(path, to_json(plan).encode("ascii"))


def read_schedule(path: str | Path) -> Schedule:
    """Read and check a schedule file; InputError if it is damaged or wrong in itself."""
    return from_json(read_text(path, "Schedule"))
