"""From a network, or what Vela says of a model, to the task of a search: the other core's network where that may be better, provenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Cycles, Replayer, decides
from cascader.ethosu.network.homes import on_ports, spill_home, with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import outer_memory, wanted_home
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.effort import by_estimates
from cascader.ethosu.search.origins import Measure, has_time_for_another, reason
from cascader.ethosu.search.task import Origin, Task
from cascader.frontends.vela import MANY_SPARED, Legalised, alternative, vela_tools
from npu_model.accelerator import accelerator
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters

if TYPE_CHECKING:
    from cascader.ethosu.spill import spills
else:
    spills = later("cascader.ethosu.spill.spills")  # few searches move tensors out of the arena


class TaskTerms(Struct, frozen=True):
    """Terms of a task: the options of its search, the NPU's timing, and where tensors live, as pairs WHAT=MEMORY.

    With ``one_core`` Vela's other core is not asked for better kernels. ``spill`` is the memory to which the search may move tensors
    between layers (None: to none).
    """

    options: CascadeOptions = field(default_factory=CascadeOptions)
    timing: TimingParameters = DEFAULT_TIMING
    homes: tuple[str, ...] = ()
    one_core: bool = False
    spill: str | None = None


class ModelSource(Struct, frozen=True):
    """A model as a schedule says it: its name, its bytes, and names and versions of the tools that take part beside Vela."""

    name: str
    data: bytes
    tools: tuple[tuple[str, str], ...] = ()

    def provenance(self, found: Legalised, note: str, system: MemorySystem, timing: TimingParameters) -> Provenance:
        """The origin of schedules of a legalised network; ``note`` says why it is not that of Vela's default core."""
        tools = dict(self.tools) | dict(vela_tools(found.result.version, found.core, note))
        return Provenance(self.name, sha256(self.data).hexdigest(), tuple(sorted(tools.items())), system, timing)


def network_task(
    plain: Network, origin: Callable[[MemorySystem], Provenance], device: str, system: MemorySystem, cycles: Cycles, terms: TaskTerms
) -> Task:
    """The task of scheduling a network, whatever it is made of; its ``origin`` is of the memories in which its tensors then live.

    InputError if a home is wrong, or the memory to spill to.
    """
    wanted = tuple(wanted_home(text, system) for text in terms.homes)
    network = with_homes(plain, wanted)
    outer = None if terms.spill is None else outer_memory(terms.spill, system)
    spilled = () if outer is None else (spill_home(network, outer.memory, outer.port),)
    system = on_ports(system, (*network.homes, *spilled))
    replay = Replayer(cycles, system, terms.timing)
    may_spill = None if outer is None else spills.Spills(outer)
    name = accelerator(device).name
    options = terms.options if decides(replay, name) else by_estimates(terms.options)
    return Task(network, name, system, replay, origin(system), options, homes=wanted, spills=may_spill)


def _others(source: ModelSource, first: Legalised, network: Network, measure: Measure) -> Iterator[Origin]:
    """The network of Vela's other core, if it may be better; of large networks, whose search takes long, it is not asked."""
    other = alternative(source.data, first, measure.accelerator) if has_time_for_another(network) else None
    if other is not None:
        second = other.network()
        why = reason(network, second, measure)
        if why:
            yield Origin(second, source.provenance(other, why, measure.system, measure.timing))


def task_of(source: ModelSource, found: Legalised, device: str, system: MemorySystem, cycles: Cycles, terms: TaskTerms) -> Task:
    """The task of scheduling a model of which Vela has said what :func:`cascader.frontends.vela.legalised` returns.

    InputError if a home is wrong.
    """
    spared = found.spared
    plain = found.network(merge=spared > MANY_SPARED)
    origin = partial(source.provenance, found, found.note, timing=terms.timing)
    task = network_task(plain, lambda memories: origin(system=memories), device, system, cycles, terms)
    measure = Measure(task.accelerator, task.system, terms.timing, task.replay)
    others = () if terms.one_core or terms.options.few_forms else tuple(_others(source, found, plain, measure))
    if 0 < spared <= MANY_SPARED:
        others = (*others, Origin(found.network(merge=True), task.provenance))
    return replace(task, others=others)
