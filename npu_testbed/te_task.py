"""From Tensor Expressions to the task of scheduling them, for which TVM reads them."""

from __future__ import annotations

from collections.abc import Callable

from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.search.task import Task
from cascader.frontends.te.network import import_graph
from cascader.tasks import TaskTerms, network_task
from cascader.tensorir.compat import load
from npu_model.memory.system import MemorySystem
from npu_testbed.te_models import load_te
from npu_testbed.versions import tool_versions
from sim import quick_cycles


def te_task(source: str, accelerator_config: str, system: MemorySystem, terms: TaskTerms, progress: Callable[[str], None]) -> Task:
    """The task of scheduling Tensor Expressions, as :func:`cascader.tasks.task_of` has it for a file."""
    model = load_te(source)
    progress(f"Choosing blocks and encoding weights of {model.name}")
    network = import_graph(model.read, accelerator_config, system, terms.timing)
    tools = tool_versions((("apache-tvm", load().version),))

    def origin(memories: MemorySystem) -> Provenance:
        return Provenance(model.name, model.sha256, tools, memories, terms.timing)

    return network_task(network, origin, accelerator_config, system, quick_cycles, terms)
