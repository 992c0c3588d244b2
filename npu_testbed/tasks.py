"""From a network, or a model of which Vela has said something, to the task of scheduling it, with our version in its provenance."""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import replace

from cascader import tasks
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.task import Task
from cascader.frontends.vela import Legalised
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.models import Model
from npu_testbed.versions import Tools, tool_versions
from sim import quick_cycles


def _terms(
    rungs: int | None,
    timing: TimingParameters,
    recompute: Fraction | None,
    homes: tuple[str, ...],
    *,
    one_core: bool,
    spill: str | None = None,
) -> tasks.TaskTerms:
    options = CascadeOptions() if rungs is None else CascadeOptions(rungs=rungs)
    return tasks.TaskTerms(options if recompute is None else replace(options, recompute=recompute), timing, homes, one_core, spill)


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
    spill: str | None = None,
) -> Task:
    """The task of scheduling a network, whatever it is made of: ``origin`` is the model's name, its hash and the tools of its front end.

    The rest is as :func:`task_of` has it.
    """
    name, digest, tools = origin
    terms = _terms(rungs, timing, recompute, homes, one_core=True, spill=spill)

    def provenance(memories: MemorySystem) -> Provenance:
        return Provenance(name, digest, tool_versions(tools), memories, timing)

    return tasks.network_task(plain, provenance, accelerator_config, system, quick_cycles, terms)


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
    spill: str | None = None,
) -> Task:
    """The task of scheduling a model of which Vela has said what :func:`cascader.frontends.vela.legalised` returns.

    ``recompute`` bounds the multiply-accumulates of its forms, as a multiple of the network's (None: the search's own). With
    ``one_core`` Vela's other core is not asked for better kernels. ``homes`` are pairs WHAT=MEMORY, as ``--home`` takes them.
    ``spill`` is the memory to which the search may move tensors between layers.
    """
    source = tasks.ModelSource(model.name, model.data, tool_versions(()))
    terms = _terms(rungs, timing, recompute, homes, one_core=one_core, spill=spill)
    return tasks.task_of(source, found, accelerator_config, system, quick_cycles, terms)
