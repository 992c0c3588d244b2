"""The operators of a network that stay on the CPU: Vela's option ``--show-cpu-operations``."""

from __future__ import annotations

from typing import Any

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.printable import printable
from validation.layout import grid

_HEADERS = ("operator on the CPU", "inputs", "outputs")


def cpu_operators_json(network: CompiledNetwork) -> list[dict[str, Any]]:
    """The operators in the order of their execution, with the tensors that they exchange with the arena."""
    steps = [step for step in network.steps if isinstance(step, CpuOperator)]
    return [
        {"operator": step.code, "inputs": [binding.name for binding in step.inputs], "outputs": [binding.name for binding in step.outputs]}
        for step in steps
    ]


def cpu_operators_text(network: CompiledNetwork) -> str:
    """The same as a table, or that there are none."""
    rows = [(one["operator"], ", ".join(one["inputs"]), ", ".join(one["outputs"])) for one in cpu_operators_json(network)]
    if not rows:
        return "No operator stays on the CPU."
    return grid(_HEADERS, [tuple(printable(cell) for cell in row) for row in rows], (True, True, True))
