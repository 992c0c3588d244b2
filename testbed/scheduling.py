"""From a model to a schedule file, and back from the file to a checked schedule."""

from __future__ import annotations

from pathlib import Path

from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from testbed.files import write_file
from testbed.memory_options import NO_OPTIONS, MemoryOptions
from testbed.progress import Progress, silent
from validation.reading import read_text

OPTIMISE = ("Performance", "Size")
"""Aims that a schedule can be optimised for, as Vela spells it."""

DEFAULT_OPTIMISE = "Performance"
"""Vela's default."""

EFFORTS = ("standard", "thorough")
"""How hard is searched: at the memory limits near the budget, or at all of a frontier's."""

DEFAULT_EFFORT = "standard"


def schedule(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    *,
    arena_cache_size: int | None = None,
    optimise: str = DEFAULT_OPTIMISE,
    cascade: bool = True,
    effort: str = DEFAULT_EFFORT,
    memory: MemoryOptions = NO_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
    ignore_ops: tuple[str, ...] = (),
    processes: int | None = None,
    progress: Progress = silent,
) -> Schedule:
    """The schedule of a model (a path or ``zoo:NAME``) in at most ``arena_cache_size`` bytes, with its provenance.

    ``optimise`` Performance asks for the fastest that is found, Size for the one that needs least memory. ``cascade``
    False runs every layer whole, one after the other, and has no choice to make. ``effort`` standard searches near the budget,
    thorough at every memory limit of a frontier, which takes some times longer. Builtin operators named in ``ignore_ops`` stay on the
    CPU. ``processes`` share the work (None: as many as there are processors); the answer does not depend on them. The search
    optimises for an NPU of this ``timing``.

    InputError if the model or a name is wrong, or the arena would exceed ``arena_cache_size`` bytes.
    """
    from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer  # noqa: PLC0415  # a replay alone does not need the scheduler
    from cascader.ethosu.search.choice import choose  # noqa: PLC0415  # the same
    from cascader.search.workers import processes_for, workers  # noqa: PLC0415  # the same
    from testbed.legalise import load_task  # noqa: PLC0415  # nor the compiler

    _check_budget(arena_cache_size)
    if optimise not in OPTIMISE:
        raise InputError(f"--optimise {optimise!r} is unknown: choose {' or '.join(OPTIMISE)}.")
    if effort not in EFFORTS:
        raise InputError(f"--effort {effort!r} is unknown: choose {' or '.join(EFFORTS)}.")
    task = load_task(source, accelerator_config, memory, timing=timing, ignore_ops=ignore_ops, progress=progress)
    progress(f"Scheduling {task.provenance.model}")
    if not cascade:
        return schedule_layer_by_layer(task.network, task.accelerator, arena_cache_size=arena_cache_size, provenance=task.provenance)
    with workers(processes_for(len(task.network.graph.parts), processes)) as executor:
        return choose(
            task, executor, arena_cache_size=arena_cache_size, optimise=optimise, thorough=effort != DEFAULT_EFFORT, show=progress
        )


def _check_budget(arena_cache_size: int | None) -> None:
    if arena_cache_size is not None and arena_cache_size < 1:
        raise InputError(f"--arena-cache-size {arena_cache_size} is below 1: give a number of bytes.")


def write_schedule(plan: Schedule, path: str | Path) -> None:
    """Write a schedule file, whole or not at all."""
    write_file(path, to_json(plan).encode("ascii"))


def read_schedule(path: str | Path) -> Schedule:
    """Read and check a schedule file; InputError if it is damaged or wrong in itself."""
    return from_json(read_text(path, "Schedule"))
