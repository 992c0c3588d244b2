"""From a request to the task of its search: the network, perhaps the network of Vela's other core, and the provenance of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from cascader.ethosu.forms import is_flat
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Cycles, Replayer, decides
from cascader.ethosu.network.homes import on_ports, spill_home, with_homes
from cascader.ethosu.network.lasting_inputs import with_lasting_inputs
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import outer_memory, wanted_home
from cascader.ethosu.search.effort import by_estimates
from cascader.ethosu.search.origins import Measure, has_time_for_another, holds_most_for_copies, reason
from cascader.ethosu.search.request import ModelSource, NetworkSource, Request
from cascader.ethosu.search.task import Origin, Task
from cascader.frontends.vela import MANY_SPARED, Legalised, alternative, legalised, vela_tools
from npu_model.accelerator import accelerator
from npu_model.compiled.layouts import layouts_of
from npu_model.front import later
from npu_model.memory.system import MemorySystem

with later():
    from cascader.ethosu.spill import spills  # few searches move tensors out of the arena


def _provenance(source: ModelSource, request: Request, found: Legalised, note: str, system: MemorySystem) -> Provenance:
    """The origin of schedules of a legalised network. ``note`` says why another core than Vela's default one made the network."""
    tools = tuple(sorted((dict(source.tools) | dict(vela_tools(found.result.version, found.core, note))).items()))
    nhwc, record = layouts_of(source.data) or UNSET, request.record or UNSET
    return Provenance(source.name, source.sha256, tools, system, request.timing, nhwc, record)


def network_task(request: Request, plain: Network, origin: Callable[[MemorySystem], Provenance], cycles: Cycles) -> Task:
    """The task of scheduling a network from any source. Its ``origin`` names the memories in which its tensors then lie.

    InputError if a home or the memory to spill to is wrong.
    """
    system = request.memory
    wanted = tuple(wanted_home(text, system) for text in request.homes)
    network = with_homes(with_lasting_inputs(plain, wanted) if request.keep_inputs else plain, wanted)
    outer = None if request.spill is None else outer_memory(request.spill, system)
    spilled = () if outer is None else (spill_home(network, outer.memory, outer.port),)
    system = on_ports(system, (*network.homes, *spilled))
    replay = Replayer(cycles, system, request.timing)
    may_spill = None if outer is None else spills.Spills(outer)
    name, options = accelerator(request.device).name, request.search_options
    options = options if decides(replay, name) else by_estimates(options)
    return Task(network, name, system, replay, origin(system), options, homes=wanted, spills=may_spill)


def _others(source: ModelSource, request: Request, first: Legalised, network: Network, measure: Measure) -> Iterator[Origin]:
    """The network of Vela's other core, if it may be better. Large networks take long to search, so their other core is not asked."""
    flat = is_flat(network)
    asked = partial(alternative, flat=flat, copies=flat and holds_most_for_copies(network), may_gain=partial(measure.may_gain, network))
    other = asked(source.data, first, measure.accelerator) if has_time_for_another(network) else None
    if other is not None:
        second = other.network()
        # The Python core copies a network of RESHAPEs alone by DMA, without a kernel that could be scheduled.
        why = reason(network, second, measure) if second.graph.parts else ""
        if why:
            yield Origin(second, _provenance(source, request, other, why, measure.system))


def legalised_task(request: Request, source: ModelSource, found: Legalised, cycles: Cycles) -> Task:
    """The task of scheduling a model that Vela legalised: ``found`` is the result of :func:`cascader.frontends.vela.legalised`.

    Vela's other core is not asked for better kernels if the effort is quick or if operators are to stay on the CPU. InputError if a home is
    wrong.
    """
    spared = found.spared
    plain = found.network(merge=spared > MANY_SPARED)

    def origin(system: MemorySystem) -> Provenance:
        return _provenance(source, request, found, found.note, system)

    task = network_task(request, plain, origin, cycles)
    measure = Measure(task.accelerator, task.system, request.timing, task.replay)
    one_core = bool(request.ignore_ops) or task.options.few_forms
    others = () if one_core else tuple(_others(source, request, found, plain, measure))
    if 0 < spared <= MANY_SPARED:
        others = (*others, Origin(found.network(merge=True), task.provenance))
    if request.keep_inputs:
        others = tuple(replace(other, network=with_lasting_inputs(other.network, task.homes)) for other in others)
    return replace(task, others=others)


def task_of(request: Request, cycles: Cycles) -> Task:
    """The task of a request, for a model that Vela legalises or for a network that exists already."""
    request.check()
    source = request.source
    if isinstance(source, NetworkSource):
        origin = source.origin
        return network_task(
            request, source.network, lambda system: origin or Provenance(memory_system=system, timing=request.timing), cycles
        )
    if isinstance(source, ModelSource):
        found = legalised(source.data, accelerator(request.device).name, request.ignore_ops)
        return legalised_task(request, source, found, cycles)
    raise TypeError(f"{source!r} is neither a model nor a network.")
