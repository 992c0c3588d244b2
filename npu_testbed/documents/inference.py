"""Parts that describe a network as a whole: the estimated time of an inference, its operators on the CPU, and findings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from npu_testbed.documents.document import Entry, meaning
from npu_testbed.documents.units import Bytes, Cycles


class CpuCyclesEntry(Entry, frozen=True):
    """A range of CPU cycles."""

    low: int
    high: int


class MillisecondsEntry(Entry, frozen=True):
    """A range of milliseconds."""

    low: float
    high: float


CpuCycles = Annotated[CpuCyclesEntry, meaning("Cycles at the CPU's clock, a range.")]


Counted = Literal["byte", "output", "input", "mac"]
"""The units by which an operator's cycles are counted: a byte of inputs and outputs, an element of either, a multiply-accumulate."""


class OperatorTimeEntry(Entry, frozen=True):
    """The time of an operator on the CPU, and the amount that it is computed from."""

    operator: str
    output: str
    kind: str
    counted: Counted
    count: int
    cpu_cycles: CpuCycles
    basis: str


class InferenceEntry(Entry, frozen=True):
    """The time of an inference and of its parts."""

    cpu: Annotated[str, meaning("The table of what operators take on the CPU.")]
    cpu_clock_hz: int
    npu_milliseconds: float
    milliseconds: MillisecondsEntry
    npu_calls: int
    npu_calls_cpu_cycles: CpuCycles
    copies_cpu_cycles: CpuCycles
    operators: tuple[OperatorTimeEntry, ...]


Inferred = Annotated[
    InferenceEntry,
    meaning("An inference as a whole, by estimate: the NPU, operators on the CPU, calls of the NPU and copies of inputs and outputs."),
]


class CpuOperationEntry(Entry, frozen=True):
    """An operator on the CPU with its tensors, and the reason."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reason: Annotated[str, meaning('Why it stays on the CPU, the value that the compiler found; "" where it says nothing.')]
    bound: Annotated[str, meaning('What the compiler asks for, "" where it names nothing.')]
    remedy: Annotated[str, meaning('What to change so that it runs on the NPU, "" where nothing is known.')]


CpuOperations = Annotated[tuple[CpuOperationEntry, ...], meaning("Operators that stay on the CPU, in order, with --show-cpu-operations.")]


class FindingEntry(Entry, frozen=True):
    """A change that saves cycles or bytes."""

    kind: str
    text: str
    changed: str
    cycles: Cycles = field(name="saved_cycles")
    bytes: Bytes = field(name="saved_bytes")
    needs: int = field(name="needed_bytes")
