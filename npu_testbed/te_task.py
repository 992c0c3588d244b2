"""From Tensor Expressions to the task of scheduling them, for which TVM reads them."""

from __future__ import annotations

from collections.abc import Callable

from cascader.ethosu.search.task import Task
from cascader.frontends.te.network import import_graph
from cascader.tasks import TaskTerms
from cascader.tensorir.compat import load
from npu_model.memory.system import MemorySystem
from npu_testbed.tasks import network_task
from npu_testbed.te_models import load_te


def te_task(source: str, accelerator_config: str, system: MemorySystem, terms: TaskTerms, progress: Callable[[str], None]) -> Task:
    """The task of scheduling Tensor Expressions, as :func:`npu_testbed.tasks.task_of` has it for a file."""
    model = load_te(source)
    progress(f"Choosing blocks and encoding weights of {model.name}")
    network = import_graph(model.read, accelerator_config, system, terms.timing)
    origin = model.name, model.sha256, (("apache-tvm", load().version),)
    return network_task(network, origin, accelerator_config, system, terms)
