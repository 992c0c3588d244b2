"""From a model's source to the task of scheduling it: read, compiled with Vela as legaliser, with where it came from."""

from __future__ import annotations

from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule import Provenance
from cascader.frontends.vela import legalised
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, require_schedulable
from testbed.memory_options import NO_OPTIONS, MemoryOptions
from testbed.memory_use import require_one_memory
from testbed.models import load_model
from testbed.progress import Progress, silent
from testbed.search import Task
from testbed.versions import tool_versions, vela_tools


def load_task(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    memory: MemoryOptions = NO_OPTIONS,
    *,
    rungs: int | None = None,
    progress: Progress = silent,
) -> Task:
    """The task of scheduling ``source`` (a path or ``zoo:NAME``), searched at so many memory limits per layout (None: the default).

    InputError if the model or a name is wrong, or the memory system has no one memory for the arena.
    """
    require_schedulable(accelerator_config)
    device, system = accelerator(accelerator_config), memory.memory_system()
    require_one_memory(system)
    progress(f"Reading {source}")
    model = load_model(source)
    progress(f"Compiling {model.name} with Vela as legaliser")
    found = legalised(model.data, device.name)
    if found.note:
        progress(found.note)
    tools = tool_versions(vela_tools(found.result.version, found.core, found.note))
    provenance = Provenance(model.name, model.sha256, tools, system)
    return Task(found.network(), device.name, system, provenance, CascadeOptions() if rungs is None else CascadeOptions(rungs=rungs))
