"""From a model's source to the task of scheduling it: read, and compiled with Vela as legaliser while the search is imported."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cascader.ethosu.network.network import CpuPart
from cascader.ethosu.search.effort import QUICK, STANDARD
from cascader.frontends.vela import legalised
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, require_use
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.device_memory import system_of
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.models import Model, load_model
from npu_testbed.one_memory import as_scheduled, has_outer_arena, outer_homes
from npu_testbed.progress import Progress, silent
from npu_testbed.te_models import is_te
from npu_testbed.versions import tool_versions

if TYPE_CHECKING:
    import sim
    from cascader import tasks
    from cascader.ethosu import options
    from cascader.ethosu.options import CascadeOptions
    from cascader.ethosu.search.task import Task
    from cascader.tasks import ModelSource, TaskTerms
    from npu_testbed import te_task as te_tasks
else:
    sim = later("sim")  # imported while Vela ran
    tasks = later("cascader.tasks")  # the same
    options = later("cascader.ethosu.options")  # the same
    te_tasks = later("npu_testbed.te_task")  # TVM is for who gives Tensor Expressions

_SEARCH = (
    "cascader.frontends.vela.lift",
    "cascader.frontends.vela.stream_check",
    "cascader.tasks",
    "cascader.ethosu.search.choice",
    "cascader.ethosu.search.frontier",
    "npu_testbed.scheduling",
    "npu_testbed.simulation",
)
"""Modules that whoever loads a task will need."""


def _import_search() -> None:
    """Import the search while nothing else is to be done."""
    for name in _SEARCH:
        import_module(name)


def search_options(rungs: int | None, recompute: Fraction | None) -> CascadeOptions:
    """The options of a search at so many memory limits of each form, and forms of ``recompute`` times the MACs at most (None: default)."""
    asked = {"rungs": rungs, "recompute": recompute}
    return replace(options.CascadeOptions(), **{name: value for name, value in asked.items() if value is not None})


def as_source(model: Model) -> ModelSource:
    """A model as schedules of it say it, with our version among those of the tools."""
    return tasks.ModelSource(model.name, model.data, tool_versions(()))


def load_task(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    memory: MemoryOptions = NO_OPTIONS,
    *,
    rungs: int | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
    recompute: Fraction | None = None,
    ignore_ops: tuple[str, ...] = (),
    homes: tuple[str, ...] = (),
    spill: str | None = None,
    effort: str = STANDARD,
    progress: Progress = silent,
) -> Task:
    """The task of scheduling ``source`` (a path or ``zoo:NAME``), searched at so many memory limits per layout (None: the default).

    ``timing`` are the parameters of the NPU that it is scheduled for. Builtin operators named in ``ignore_ops`` stay on the CPU.
    ``homes`` put tensors outside the arena: pairs WHAT=MEMORY, as ``--home`` takes them. Where the memory mode parts a fast scratch from
    the arena (Dedicated_Sram), that scratch is the schedule's arena, and inputs and outputs live in the mode's own.
    ``recompute`` bounds the multiply-accumulates of its forms, as a multiple of the network's (None: the search's own). ``spill`` is the
    memory to which the search may move tensors between layers.
    For a quick ``effort`` Vela's other core is not asked.

    InputError if the model or a name is wrong, or a tensor may not live where it should.
    """
    require_use(accelerator_config, "schedule")
    asked = system_of(accelerator_config, memory)
    system, homes = as_scheduled(asked), outer_homes(asked, homes)

    def terms(*, one_core: bool) -> TaskTerms:
        return tasks.TaskTerms(search_options(rungs, recompute), timing, homes, one_core, spill)

    progress(f"Reading {source}")
    if is_te(source):
        if ignore_ops:
            raise InputError(f"Operators {', '.join(ignore_ops)} cannot stay on the CPU: {source} is a graph of Tensor Expressions alone.")
        return te_tasks.te_task(source, accelerator_config, system, terms(one_core=True), progress)
    model = load_model(source)
    progress(f"Compiling {model.name} with Vela as legaliser")
    found = legalised(model.data, accelerator(accelerator_config).name, ignore_ops, meanwhile=_import_search, progress=progress)
    if found.note:
        progress(found.note)

    # The other core is not asked where it was told what to leave alone: it is a matter of cycles alone.
    own = terms(one_core=bool(ignore_ops) or effort == QUICK)
    task = tasks.task_of(as_source(model), found, accelerator_config, system, sim.quick_cycles, own)
    on_cpu = next((part.payload for part in task.network.graph.parts if isinstance(part.payload, CpuPart)), None)
    if on_cpu is not None and has_outer_arena(asked):
        raise InputError(
            f"The network runs {on_cpu.code} on the CPU, which finds its tensors in the arena, and {asked.name} keeps that apart from the "
            "fast scratch of the NPU: choose a memory mode with one memory for both, such as Shared_Sram."
        )
    return task
