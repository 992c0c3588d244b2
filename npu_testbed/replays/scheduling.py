"""From a Request to a schedule file, and back from the file to a checked schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.search.request import Request, Run
from npu_model.front import later
from npu_testbed.ground.files import write_file
from validation.reading import read_text

with later():
    from cascader import verbs  # a replay alone does not need the scheduler
    from cascader.ethosu.schedule import layer_by_layer
    from npu_testbed.models import legalise  # a replay alone does not need the compiler

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Choice, Task

_ALONE = Run(None)


def choice_of(task: Task, request: Request, run: Run = _ALONE) -> Choice:
    """The schedule of a loaded task, with its replayed cycles and their lower bound."""
    run.show(f"Scheduling {task.provenance.model}")
    return verbs.chosen(task, request, run)


def whole_layers(task: Task, request: Request) -> Schedule:
    """The schedule that runs every layer whole, one after the other; InputError if it exceeds the budget."""
    return layer_by_layer.schedule_layer_by_layer(
        task.network, task.accelerator, arena_cache_size=request.budget, provenance=task.provenance
    )


def schedule(request: Request, run: Run = _ALONE) -> Schedule:
    """The schedule of a request, with its provenance; InputError if a name is wrong, or nothing fits the budget."""
    task = legalise.load_task(request, run.show)
    return choice_of(task, request, run).point.schedule if request.cascade else whole_layers(task, request)


def schedule_file(plan: Schedule) -> bytes:
    """Bytes of a schedule file."""
    return to_json(plan).encode("ascii")


def write_schedule(plan: Schedule, path: str | Path) -> None:
    """Write a schedule file, whole or not at all."""
    write_file(path, schedule_file(plan))


def read_schedule(path: str | Path) -> Schedule:
    """Read and check a schedule file; InputError if it is damaged or inconsistent."""
    return from_json(read_text(path, "Schedule"))
