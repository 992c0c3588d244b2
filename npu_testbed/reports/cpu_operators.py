"""The operators of a network that stay on the CPU, and why: Vela's option ``--show-cpu-operations``."""

from __future__ import annotations

from cascader.frontends.vela.remedies import explained, grouped, named, remedy
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.printable import printable
from npu_testbed.cpu_time.estimate import Inference, cycles_text
from npu_testbed.documents.inference import CpuOperationEntry
from validation.layout import filled, grid

_HEADERS = ("operator on the CPU", "inputs", "outputs", "CPU cycles")
_UNSAID = "Vela names no reason"
_LINE = 1600
"""Characters of one operator's reason."""


def _on_cpu(network: CompiledNetwork) -> list[CpuOperator]:
    return [step for step in network.steps if isinstance(step, CpuOperator)]


def cpu_operators_json(network: CompiledNetwork) -> tuple[CpuOperationEntry, ...]:
    """The operators in the order of their execution, with the tensors that they exchange with the arena, and why they are on the CPU.

    ``reason`` is the value that Vela found, ``bound`` its requirement, ``remedy`` the change to make; "" if unknown.
    """
    return tuple(
        CpuOperationEntry(
            operator=step.code,
            inputs=tuple(binding.name for binding in step.inputs),
            outputs=tuple(binding.name for binding in step.outputs),
            reason=step.reason.value if step.reason else "",
            bound=step.reason.bound if step.reason else "",
            remedy=remedy(step.code, step.reason) if step.reason else "",
        )
        for step in _on_cpu(network)
    )


def cpu_reasons(network: CompiledNetwork) -> list[tuple[str, str]]:
    """The operators by type and reason, each with its outputs, and the value, the bound and the remedy in one clause."""
    every = [(step.code, step.outputs[0].name if step.outputs else "", step.reason) for step in _on_cpu(network)]
    return [
        (f"{printable(code)} {named(names)}", printable(explained(code, reason) if reason else _UNSAID, _LINE))
        for code, names, reason in grouped(every)
    ]


def cpu_operators_text(network: CompiledNetwork, times: Inference) -> str:
    """Return the operators as a table with the CPU cycles of each, followed by a line for each reason."""
    rows = [
        (one.operator, ", ".join(one.inputs), ", ".join(one.outputs), cycles_text(time))
        for one, time in zip(cpu_operators_json(network), times.operators, strict=True)
    ]
    if not rows:
        return "No operator stays on the CPU."
    table = grid(_HEADERS, [tuple(printable(cell) for cell in row) for row in rows], (True, True, True, False))
    return "\n\n".join([table, "\n".join(filled(f"{who}: {why}.") for who, why in cpu_reasons(network))])
