"""From a model to a schedule file, and back from the file to a checked schedule."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.search.effort import STANDARD, THOROUGH, options_of, require_effort
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.device_memory import arena_bound
from npu_testbed.files import write_file
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.progress import Progress, silent
from validation.reading import read_text

if TYPE_CHECKING:
    from cascader.ethosu.schedule import layer_by_layer
    from cascader.ethosu.search import choice
    from cascader.ethosu.search import task as tasks
    from cascader.ethosu.search.task import Choice, Price, Seen, Task
    from cascader.search import workers as pools
    from npu_testbed import legalise
else:
    choice = later("cascader.ethosu.search.choice")  # a replay alone does not need the scheduler
    tasks = later("cascader.ethosu.search.task")  # the same
    pools = later("cascader.search.workers")  # the same
    legalise = later("npu_testbed.legalise")  # a replay alone does not need the compiler
    layer_by_layer = later("cascader.ethosu.schedule.layer_by_layer")  # a replay alone does not need the scheduler

OPTIMISE = ("Performance", "Size")
"""Aims that a schedule can be optimised for, as Vela spells it."""

DEFAULT_OPTIMISE = "Performance"
"""Vela's default."""

DEFAULT_EFFORT = STANDARD


def with_effort(task: Task, effort: str) -> Task:
    """The task with the options of an effort."""
    return replace(task, options=options_of(effort, task.options))


def choice_of(
    task: Task,
    *,
    arena_cache_size: int | None = None,
    optimise: str = DEFAULT_OPTIMISE,
    effort: str = DEFAULT_EFFORT,
    processes: int | None = None,
    progress: Progress = silent,
    seen: Seen | None = None,
    price: Price | None = None,
    bounds: bool = True,
) -> Choice:
    """As :func:`schedule` of a task that is loaded: the schedule with its replayed cycles and a lower bound of them.

    ``optimise`` and ``effort`` are names of :data:`OPTIMISE` and :data:`EFFORTS`. ``seen`` is told of each schedule that is better than
    those before; what it raises ends the search. With a ``price`` the cheapest is chosen in place of the fastest. Without ``bounds``
    nothing is said of the bytes that every schedule takes.
    """
    task = with_effort(task, effort)
    progress(f"Scheduling {task.provenance.model}")
    aim = choice.Aim(arena_cache_size, optimise == OPTIMISE[1], thorough=effort == THOROUGH, price=price, bounds=bounds)
    with pools.workers(pools.processes_for(len(task.network.graph.parts), processes), takes_part=True) as executor:
        return choice.choose(task, aim, executor, progress, seen or tasks.unseen)


def schedule(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    *,
    arena_cache_size: int | None = None,
    optimise: str = DEFAULT_OPTIMISE,
    cascade: bool = True,
    effort: str = DEFAULT_EFFORT,
    recompute: Fraction | None = None,
    memory: MemoryOptions = NO_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
    ignore_ops: tuple[str, ...] = (),
    homes: tuple[str, ...] = (),
    spill: str | None = None,
    processes: int | None = None,
    progress: Progress = silent,
) -> Schedule:
    """The schedule of a model (a path or ``zoo:NAME``) in at most ``arena_cache_size`` bytes, with its provenance.

    None stands for the bytes that the memory mode of ``memory`` grants, if it says how many.

    ``optimise`` Performance asks for the fastest that is found, Size for the one that needs least memory. ``cascade``
    False runs every layer whole, one after the other, and has no choice to make. ``effort`` standard searches near the budget,
    quick makes fewer changes there, thorough searches at every memory limit of a frontier, which takes some times longer.
    ``recompute`` bounds the multiply-accumulates of tiles and skips made again, as a multiple of the network's (None: 1.1). Builtin
    operators named in ``ignore_ops`` stay on the CPU. ``processes`` share the work (None: as many as there are processors); the answer
    does not depend on them. The search optimises for an NPU of this ``timing``. ``homes`` put tensors outside the arena, which does not
    count their bytes then: pairs WHAT=MEMORY such as ``input=ext``, of all inputs, all outputs, one of them, or a tensor.
    ``spill`` names a memory to which the search may move tensors between layers, which come through the arena by DMA.

    InputError if the model or a name is wrong, or the arena would exceed ``arena_cache_size`` bytes.
    """
    check_budget(arena_cache_size)
    arena_cache_size = arena_bound(accelerator_config, memory, arena_cache_size)
    if cascade:
        check_names(optimise, effort)
    task = legalise.load_task(
        source,
        accelerator_config,
        memory,
        timing=timing,
        ignore_ops=ignore_ops,
        recompute=recompute,
        homes=homes,
        spill=spill,
        effort=effort,
        progress=progress,
    )
    if cascade:
        made = choice_of(task, arena_cache_size=arena_cache_size, optimise=optimise, effort=effort, processes=processes, progress=progress)
        return made.point.schedule

    return layer_by_layer.schedule_layer_by_layer(
        task.network, task.accelerator, arena_cache_size=arena_cache_size, provenance=task.provenance
    )


def check_budget(arena_cache_size: int | None) -> None:
    """InputError for a budget of no bytes."""
    if arena_cache_size is not None and arena_cache_size < 1:
        raise InputError(f"--arena-cache-size {arena_cache_size} is below 1: give a number of bytes.")


def check_names(optimise: str, effort: str) -> None:
    """InputError for an aim or an effort that there is not."""
    if optimise not in OPTIMISE:
        raise InputError(f"--optimise {optimise!r} is unknown: choose {' or '.join(OPTIMISE)}.")
    require_effort(effort)


def schedule_file(plan: Schedule) -> bytes:
    """Bytes of a schedule file."""
    return to_json(plan).encode("ascii")


def write_schedule(plan: Schedule, path: str | Path) -> None:
    """Write a schedule file, whole or not at all."""
    write_file(path, schedule_file(plan))


def read_schedule(path: str | Path) -> Schedule:
    """Read and check a schedule file; InputError if it is damaged or wrong in itself."""
    return from_json(read_text(path, "Schedule"))
