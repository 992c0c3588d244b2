"""From a model's source to the task of scheduling it: read, compiled with Vela as legaliser, with where it came from."""

from __future__ import annotations

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.rewrites import is_flat, is_small
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.schedule.schedule import Provenance
from cascader.ethosu.search.task import Origin, Task
from cascader.frontends.vela import Legalised, alternative, legalised
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, accelerator, require_schedulable
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import quick_cycles
from testbed.memory_options import NO_OPTIONS, MemoryOptions
from testbed.memory_use import require_one_memory
from testbed.models import Model, load_model
from testbed.progress import Progress, silent
from testbed.replaying import QuickReplay
from testbed.versions import tool_versions, vela_tools

QUICKER = 0.99
"""Largest part of the C++ core's cycles, layer by layer, with which the network of the Python core is searched, too."""

_REMARK = "The kernels of Vela's Python core take fewer cycles here than those of its C++ core."


def _cycles(network: Network, accelerator_name: str, system: MemorySystem, timing: TimingParameters) -> int:
    """Cycles of the network layer by layer."""
    return quick_cycles(lower(schedule_layer_by_layer(network, accelerator_name)), system, timing)


def _others(
    model: Model, first: Legalised, network: Network, device: Accelerator, system: MemorySystem, timing: TimingParameters
) -> tuple[Origin, ...]:
    """The network of Vela's other core, if it is quicker layer by layer; of large networks, whose search takes long, it is not asked."""
    other = alternative(model.data, first, device.name) if is_small(network) or is_flat(network) else None
    if other is None:
        return ()
    second = other.network()
    if _cycles(second, device.name, system, timing) > QUICKER * _cycles(network, device.name, system, timing):
        return ()
    tools = tool_versions(vela_tools(other.result.version, other.core, _REMARK))
    return (Origin(second, Provenance(model.name, model.sha256, tools, system, timing)),)


def load_task(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    memory: MemoryOptions = NO_OPTIONS,
    *,
    rungs: int | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
    ignore_ops: tuple[str, ...] = (),
    progress: Progress = silent,
) -> Task:
    """The task of scheduling ``source`` (a path or ``zoo:NAME``), searched at so many memory limits per layout (None: the default).

    ``timing`` are the parameters of the NPU that it is scheduled for. Builtin operators named in ``ignore_ops`` stay on the CPU.

    InputError if the model or a name is wrong, or the memory system has no one memory for the arena.
    """
    require_schedulable(accelerator_config)
    system = memory.memory_system()
    require_one_memory(system)
    progress(f"Reading {source}")
    model = load_model(source)
    progress(f"Compiling {model.name} with Vela as legaliser")
    found = legalised(model.data, accelerator(accelerator_config).name, ignore_ops)
    if found.note:
        progress(found.note)
    # The other core is not asked where it was told what to leave alone: it is a matter of cycles alone.
    return task_of(model, found, accelerator_config, system, rungs=rungs, timing=timing, one_core=bool(ignore_ops))


def task_of(
    model: Model,
    found: Legalised,
    accelerator_config: str,
    system: MemorySystem,
    *,
    rungs: int | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
    one_core: bool = False,
) -> Task:
    """The task of scheduling a model of which Vela has said what :func:`cascader.frontends.vela.legalised` returns.

    With ``one_core`` Vela's other core is not asked for quicker kernels.
    """
    device = accelerator(accelerator_config)
    tools = tool_versions(vela_tools(found.result.version, found.core, found.note))
    provenance = Provenance(model.name, model.sha256, tools, system, timing)
    network, options = found.network(), CascadeOptions() if rungs is None else CascadeOptions(rungs=rungs)
    others = () if one_core else _others(model, found, network, device, system, timing)
    return Task(network, device.name, system, QuickReplay(system, timing), provenance, options, others)
