"""From what Vela says of a model to the task of scheduling it: its network, the other core's where that is quicker, and its provenance."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import replayable
from cascader.ethosu.forms import is_flat, is_small
from cascader.ethosu.network.homes import on_ports, wanted_home, with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.schedule.schedule import Provenance
from cascader.ethosu.search.bound import least_cycles
from cascader.ethosu.search.task import Origin, Task
from cascader.frontends.vela import MANY_SPARED, Legalised, alternative
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.accelerator import Accelerator, accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.models import Model
from npu_testbed.replaying import QuickReplay
from npu_testbed.versions import Tools, tool_versions, vela_tools
from sim import quick_cycles

QUICKER = 0.992
"""Largest part of the C++ core's cycles with which the network of the Python core is searched, too.

Cycles are those layer by layer, or the bound that no schedule undercuts: copies may hide what makes a core's kernels slow.

Vela's figures are those of its better core: what is left out then is within the 1 % that the portfolio allows.
"""

_QUICKER = "The kernels of Vela's Python core take fewer cycles here than those of its C++ core."
_SMALLER = "The tensors of Vela's Python core take fewer bytes here than those of its C++ core."


def _cycles(network: Network, accelerator_name: str, system: MemorySystem, timing: TimingParameters) -> int:
    """Cycles of the network layer by layer."""
    return quick_cycles(replayable(schedule_layer_by_layer(network, accelerator_name)), system, timing)


def _bytes(network: Network, accelerator_name: str) -> int:
    """Bytes of the network layer by layer."""
    return schedule_layer_by_layer(network, accelerator_name).arena_size


def _bound(network: Network, accelerator_name: str, system: MemorySystem, timing: TimingParameters) -> int:
    """Cycles that no schedule of the network undercuts."""
    return least_cycles(network, DepthFirstScheduler(row_graph(network)), accelerator_name, system, timing)


def _reason(network: Network, other: Network, accelerator_name: str, system: MemorySystem, timing: TimingParameters) -> str:
    """Why the other network should be searched, too, as a sentence; "" if it should not.

    It is or may be quicker, or it takes fewer bytes layer by layer, where there is hardly a row that a cascade could let go of.
    """
    ways = (_cycles, _bound)
    if any(
        cycles(other, accelerator_name, system, timing) <= QUICKER * cycles(network, accelerator_name, system, timing) for cycles in ways
    ):
        return _QUICKER
    is_smaller = is_flat(network) and _bytes(other, accelerator_name) < _bytes(network, accelerator_name)
    return _SMALLER if is_smaller else ""


def _others(
    model: Model, first: Legalised, network: Network, device: Accelerator, system: MemorySystem, timing: TimingParameters
) -> tuple[Origin, ...]:
    """The network of Vela's other core, if it may be better; of large networks, whose search takes long, it is not asked."""
    other = alternative(model.data, first, device.name) if is_small(network) or is_flat(network) else None
    if other is None:
        return ()
    second = other.network()
    reason = _reason(network, second, device.name, system, timing)
    tools = tool_versions(vela_tools(other.result.version, other.core, reason))
    return (Origin(second, Provenance(model.name, model.sha256, tools, system, timing)),) if reason else ()


def network_task(
    plain: Network,
    origin: tuple[str, str, Tools],
    accelerator_config: str,
    system: MemorySystem,
    *,
    rungs: int | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
    recompute: Fraction | None = None,
    homes: tuple[str, ...] = (),
    others: Callable[[MemorySystem, Provenance], tuple[Origin, ...]] = lambda *_: (),
) -> Task:
    """The task of scheduling a network, whatever it is made of: ``origin`` is the model's name, its hash and the tools of its front end.

    ``others`` are networks of the same mathematics, on the memories in which the network's tensors then live. The rest is as
    :func:`task_of` has it.
    """
    device = accelerator(accelerator_config)
    wanted = tuple(wanted_home(text, system) for text in homes)
    network = with_homes(plain, wanted)
    system = on_ports(system, network.homes)
    name, sha256, tools = origin
    provenance = Provenance(name, sha256, tool_versions(tools), system, timing)
    options = CascadeOptions() if rungs is None else CascadeOptions(rungs=rungs)
    options = options if recompute is None else replace(options, recompute=recompute)
    return Task(network, device.name, system, QuickReplay(system, timing), provenance, options, others(system, provenance), wanted)


def task_of(
    model: Model,
    found: Legalised,
    accelerator_config: str,
    system: MemorySystem,
    *,
    rungs: int | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
    recompute: Fraction | None = None,
    one_core: bool = False,
    homes: tuple[str, ...] = (),
) -> Task:
    """The task of scheduling a model of which Vela has said what :func:`cascader.frontends.vela.legalised` returns.

    ``recompute`` bounds the multiply-accumulates of its forms, as a multiple of the network's (None: the search's own). With
    ``one_core`` Vela's other core is not asked for better kernels. ``homes`` are
    pairs WHAT=MEMORY, as ``--home`` takes them.
    """
    device, spared = accelerator(accelerator_config), found.spared
    plain = found.network(merge=spared > MANY_SPARED)

    def others(system: MemorySystem, provenance: Provenance) -> tuple[Origin, ...]:
        second = () if one_core else _others(model, found, plain, device, system, timing)
        if 0 < spared <= MANY_SPARED:
            return (*second, Origin(found.network(merge=True), provenance))
        return second

    return network_task(
        plain,
        (model.name, model.sha256, vela_tools(found.result.version, found.core, found.note)),
        accelerator_config,
        system,
        rungs=rungs,
        timing=timing,
        recompute=recompute,
        homes=homes,
        others=others,
    )
