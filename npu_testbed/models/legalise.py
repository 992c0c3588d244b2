"""From a Request to the task of its search: Vela legalises the model while the search is imported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cascader.ethosu.network.network import CpuPart
from cascader.ethosu.search.request import ModelSource, Request
from cascader.frontends.vela import legalised
from cascader.frontends.vela.result import NOTHING_KNOWN, Known
from npu_model.accelerator import accelerator, require_use
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.outer_arena import as_scheduled, has_outer_arena, outer_homes, outer_spill
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.te_models import TeSource

with later():
    import sim  # imported while Vela ran
    from cascader.frontends import tasks
    from npu_testbed.models import te_task as te_tasks  # TVM is for who gives Tensor Expressions

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Task
    from cascader.frontends.vela import Legalised
    from npu_model.memory.system import MemorySystem

_SEARCH = (
    "cascader.frontends.vela.lift",
    "cascader.frontends.vela.stream_check",
    "cascader.frontends.tasks",
    "cascader.ethosu.search.choice",
    "cascader.ethosu.search.frontier",
    "npu_testbed.replays.scheduling",
    "npu_testbed.replays.simulation",
)
"""Modules that every user of a task will need."""


def import_search() -> None:
    """Import the search while the process would otherwise wait."""
    for name in _SEARCH:
        import_module(name)


Legaliser = Callable[[bytes, str, tuple[str, ...]], "Legalised"]
"""The answer of :func:`cascader.frontends.vela.legalised` to a model for a device, with operators that stay on the CPU."""


def load_task(request: Request, progress: Progress = silent, legaliser: Legaliser | None = None, known: Known = NOTHING_KNOWN) -> Task:
    """The task of a scheduling request; ``legaliser`` may know Vela's earlier answers, and ``known`` its compilations.

    If the memory mode separates a fast scratch from the arena (Dedicated_Sram), that scratch is the schedule's arena, and inputs and
    outputs live in the mode's arena. InputError if the model or a name is wrong, or a tensor may not live where it should.
    """
    require_use(request.device, "schedule")
    request.check()
    asked, source = request.memory, request.source
    spill = outer_spill(asked) if request.spill is None else request.spill
    request = replace(request, memory=as_scheduled(asked), homes=outer_homes(asked, request.homes), spill=spill)
    if isinstance(source, TeSource):
        return te_tasks.te_task(request, source.name, progress)
    if not isinstance(source, ModelSource):
        return tasks.task_of(request, sim.quick_cycles)
    progress(f"Compiling {source.name} with Vela as legaliser")
    device = accelerator(request.device).name
    if legaliser is None:
        found = legalised(source.data, device, request.ignore_ops, meanwhile=import_search, progress=progress, known=known)
    else:
        found = legaliser(source.data, device, request.ignore_ops)
    if found.note:
        progress(found.note)
    try:
        task = tasks.legalised_task(request, source, found, sim.quick_cycles)
    except InputError:
        # Homes of this memory mode, which no user gave, may be those of an operator on the CPU.
        if has_outer_arena(asked):
            _require_no_cpu(tasks.legalised_task(replace(request, homes=(), spill=None), source, found, sim.quick_cycles), asked)
        raise
    if has_outer_arena(asked):
        _require_no_cpu(task, asked)
    return task


def _require_no_cpu(task: Task, asked: MemorySystem) -> None:
    """InputError if an operator on the CPU needs tensors in the arena, which is in another memory than the NPU's fast scratch."""
    on_cpu = next((part.payload for part in task.network.graph.parts if isinstance(part.payload, CpuPart)), None)
    if on_cpu is not None:
        raise InputError(
            f"The network runs {on_cpu.code} on the CPU, which needs its tensors in the arena, but {asked.name} has the arena in another "
            "memory than the NPU's fast scratch: choose a memory mode with one memory for both, such as Shared_Sram."
        )
