"""The time of an inference, in values, words and JSON: NPU cycles of the replay, and ranges for operators on the CPU, calls and copies."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.printable import printable
from npu_model.program import Binding, Program
from npu_testbed.cpu_time.table import OTHER, SHIPPED, CpuTable, OperatorKind, Range
from npu_testbed.documents.inference import CpuCyclesEntry, InferenceEntry, MillisecondsEntry, OperatorTimeEntry

_NARROW = 8
"""Bits of an element in the networks that the kernels are written for."""


class OperatorTime(Struct, frozen=True):
    """An operator on the CPU: its counted amount (such as bytes), and its CPU cycles including the call."""

    operator: str
    output: str
    kind: OperatorKind
    count: int
    cycles: Range


class Inference(Struct, frozen=True):
    """The parts of an inference. Cycles are the NPU's at ``npu_hz``; ranges are the CPU's at ``cpu_hz``.

    ``operators`` run on the CPU, in order. ``invocations`` is the range of time of all ``jobs`` calls of the NPU, and ``copies`` that for
    the network's inputs and outputs, each copied once.
    """

    table: CpuTable
    npu_cycles: int
    npu_hz: int
    cpu_hz: int
    operators: tuple[OperatorTime, ...]
    jobs: int
    invocations: Range
    copies: Range

    @property
    def operator_cycles(self) -> Range:
        """CPU cycles of all operators on the CPU."""
        return _sum(one.cycles for one in self.operators)

    def cpu_milliseconds(self, cycles: Range) -> Range:
        """A range of CPU cycles as time."""
        return cycles[0] / self.cpu_hz * 1000, cycles[1] / self.cpu_hz * 1000

    @property
    def npu_milliseconds(self) -> float:
        """The time of the NPU."""
        return self.npu_cycles / self.npu_hz * 1000

    @property
    def milliseconds(self) -> Range:
        """The time of the whole: the parts one after the other, as runtimes of microcontrollers run them."""
        low, high = self.cpu_milliseconds(_sum([self.operator_cycles, self.invocations, self.copies]))
        return self.npu_milliseconds + low, self.npu_milliseconds + high


def _sum(ranges: Iterable[Range]) -> Range:
    every = list(ranges)
    return sum(low for low, _ in every), sum(high for _, high in every)


def _times(count: int, cycles: Range) -> Range:
    return count * cycles[0], count * cycles[1]


def _count(step: CpuOperator, per: str) -> int:
    if per == "mac":
        return step.macs
    if per == "byte":
        return sum(one.size for one in (*step.inputs, *step.outputs))
    return sum(prod(one.shape) for one in (step.inputs if per == "input" else step.outputs))


def _operator_time(step: CpuOperator, table: CpuTable) -> OperatorTime:
    kind = table.kind(step.code)
    if kind.per == "mac" and not step.macs:
        # Nothing says what it multiplies.
        kind = table.kind(OTHER)
    ends: tuple[Binding, ...] = (*step.outputs, *step.inputs)
    cycles = kind.wide if any(one.dtype.bits > _NARROW for one in ends) else kind.cycles
    count = _count(step, kind.per)
    return OperatorTime(step.code, ends[0].name if ends else "", kind, count, _sum([table.call, _times(count, cycles)]))


def inference_of(network: CompiledNetwork, npu_cycles: int, npu_hz: int, table: CpuTable) -> Inference:
    """The parts of an inference whose NPU takes ``npu_cycles`` at ``npu_hz``."""
    jobs = sum(isinstance(step, Program) for step in network.steps)
    return Inference(
        table=table,
        npu_cycles=npu_cycles,
        npu_hz=npu_hz,
        cpu_hz=table.clock_hz or npu_hz,
        operators=tuple(_operator_time(step, table) for step in network.steps if isinstance(step, CpuOperator)),
        jobs=jobs,
        invocations=_times(jobs, table.invoke),
        copies=_times(sum(one.size for one in (*network.inputs, *network.outputs)), table.copy),
    )


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
