"""From Tensor Expressions to the task of scheduling them, with TVM as their reader."""

from __future__ import annotations

from collections.abc import Callable

from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.search.request import Request
from cascader.ethosu.search.task import Task
from cascader.frontends.tasks import network_task
from cascader.frontends.te.network import import_graph
from cascader.tensorir.compat import load
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_testbed.ground.versions import tool_versions
from npu_testbed.models.te_models import load_te
from sim import quick_cycles


def te_task(request: Request, text: str, progress: Callable[[str], None]) -> Task:
    """The task of scheduling the Tensor Expressions ``text``; InputError if operators must stay on the CPU."""
    if request.ignore_ops:
        names = ", ".join(request.ignore_ops)
        raise InputError(f"Operators {names} cannot stay on the CPU: {text} is a graph of Tensor Expressions alone.")
    model = load_te(text)
    progress(f"Choosing blocks and encoding weights of {model.name}")
    network = import_graph(model.read, request.device, request.memory, request.timing)
    tools = tool_versions((("apache-tvm", load().version),))

    def origin(memories: MemorySystem) -> Provenance:
        return Provenance(model.name, model.sha256, tools, memories, request.timing)

    return network_task(request, network, origin, quick_cycles)
