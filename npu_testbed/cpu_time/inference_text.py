"""The time of an inference in words and as JSON: ranges, and how reliable they are."""

from __future__ import annotations

from npu_model.printable import printable
from npu_testbed.cpu_time.estimate import Inference, OperatorTime
from npu_testbed.cpu_time.table import SHIPPED, Range
from npu_testbed.documents.inference import CpuCyclesEntry, InferenceEntry, MillisecondsEntry, OperatorTimeEntry

CAVEAT = "counted from instructions, not measured: off by a factor of two or more"
"""The reliability of the shipped tables, in words."""


def _milliseconds(found: Range) -> str:
    low, high = (f"{one:.3f}" for one in found)
    return low if low == high else f"{low} to {high}"


def cycles_text(one: OperatorTime) -> str:
    """The range of an operator's CPU cycles.

    >>> from npu_testbed.cpu_time.table import OperatorKind
    >>> kind = OperatorKind("move", "output", (8.0, 30.0), (8.0, 30.0), "")
    >>> cycles_text(OperatorTime("PAD", "y", kind, 100, (1100.0, 6000.0)))
    '1,100 to 6,000'
    """
    return f"{round(one.cycles[0]):,} to {round(one.cycles[1]):,}"


def inference_text(found: Inference) -> str:
    """The whole and its parts in milliseconds."""
    parts = (
        ("operators on the CPU", found.operator_cycles),
        ("calls of the NPU", found.invocations),
        ("copies of inputs and outputs", found.copies),
    )
    said = [f"NPU {found.npu_milliseconds:.3f}", *(f"{name} {_milliseconds(found.cpu_milliseconds(cycles))}" for name, cycles in parts)]
    return f"{_milliseconds(found.milliseconds)} ms: {', '.join(said)}"


def basis_text(found: Inference) -> str:
    """The core, its clock, and the basis of the figures."""
    basis = CAVEAT if found.table.name in SHIPPED else f"by the table {printable(found.table.name)}"
    return f"{printable(found.table.title)} at {found.cpu_hz / 1e6:g} MHz, {basis}"


def inference_sentence(found: Inference) -> str:
    """The whole and its basis in one sentence."""
    return f"An inference takes {inference_text(found)} ({basis_text(found)})."


def _cycles(found: Range) -> CpuCyclesEntry:
    return CpuCyclesEntry(round(found[0]), round(found[1]))


def inference_json(found: Inference) -> InferenceEntry:
    """The same as documents have it; CPU cycles are at the CPU's clock."""
    return InferenceEntry(
        cpu=found.table.name,
        cpu_clock_hz=found.cpu_hz,
        npu_milliseconds=found.npu_milliseconds,
        milliseconds=MillisecondsEntry(*found.milliseconds),
        npu_calls=found.jobs,
        npu_calls_cpu_cycles=_cycles(found.invocations),
        copies_cpu_cycles=_cycles(found.copies),
        operators=tuple(
            OperatorTimeEntry(one.operator, one.output, one.kind.name, one.kind.per, one.count, _cycles(one.cycles), one.kind.basis)
            for one in found.operators
        ),
    )
