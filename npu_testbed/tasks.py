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
from cascader.tasks import TaskTerms
from npu_model.memory.system import MemorySystem
from npu_testbed.models import Model
from npu_testbed.versions import Tools, tool_versions
from sim import quick_cycles


def search_options(rungs: int | None, recompute: Fraction | None) -> CascadeOptions:
    """The options of a search at so many memory limits of each form, and forms of ``recompute`` times the MACs at most (None: default)."""
    asked = {"rungs": rungs, "recompute": recompute}
    return replace(CascadeOptions(), **{name: value for name, value in asked.items() if value is not None})


def network_task(plain: Network, origin: tuple[str, str, Tools], accelerator_config: str, system: MemorySystem, terms: TaskTerms) -> Task:
    """The task of scheduling a network, whatever it is made of: ``origin`` is the model's name, its hash and the tools of its front end."""
    name, digest, tools = origin

    def provenance(memories: MemorySystem) -> Provenance:
        return Provenance(name, digest, tool_versions(tools), memories, terms.timing)

    return tasks.network_task(plain, provenance, accelerator_config, system, quick_cycles, terms)


def task_of(model: Model, found: Legalised, accelerator_config: str, system: MemorySystem, terms: TaskTerms) -> Task:
    """The task of scheduling a model of which Vela has said what :func:`cascader.frontends.vela.legalised` returns."""
    source = tasks.ModelSource(model.name, model.data, tool_versions(()))
    return tasks.task_of(source, found, accelerator_config, system, quick_cycles, terms)
