"""The documents of ``simulate`` and of ``compile``, which has the same facts of a replay."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
from npu_testbed.documents.inference import CpuOperations, FindingEntry, Inferred
from npu_testbed.documents.measured import Measured
from npu_testbed.documents.runtimes import Runtimes
from npu_testbed.documents.stream import Stream
from npu_testbed.documents.surroundings import Hazards, MemorySystemEntry, NetworkEnds
from npu_testbed.documents.units import Bytes, CarriedBytes, Cycles, Files, Macs, RecomputedMacs, Timing, Tools

_Beats = Annotated[int, meaning("Data beats of the port's width.")]
_Utilisation = Annotated[float, meaning("Part of the accelerator's multiply-accumulates that the mathematics needs, 0 to 1.")]


class BeatsEntry(Entry, frozen=True):
    """Data beats by port and direction."""

    axi0_read: _Beats
    axi0_write: _Beats
    axi1_read: _Beats
    axi1_write: _Beats


class SummaryEntry(Entry, frozen=True):
    """The figures of a replay."""

    cycles: Cycles
    milliseconds: Annotated[float, meaning("Time at the memory system's clock.")]
    peak_bytes: Bytes
    live_peak_bytes: Bytes
    planned_bytes: Bytes
    constant_bytes: Bytes
    beats: BeatsEntry
    macs: Macs
    mac_utilisation: _Utilisation
    kernels: int
    transfers: int
    cpu_operators: Annotated[dict[str, int], meaning("Operators on the CPU, by name.")]
    as_planned: bool


class LayerEntry(Entry, frozen=True):
    """A layer of a replay."""

    layer: str
    operator: str
    cycles: Cycles
    share: Annotated[float, meaning("Part of all NPU cycles, 0 to 1.")]
    binding: str
    axi0_read_bytes: Bytes
    axi0_write_bytes: Bytes
    axi1_read_bytes: Bytes
    mac_utilisation: _Utilisation
    kernels: int
    transfers: int
    axi1_write_bytes: Bytes


class StallEntry(Entry, frozen=True):
    """The cycles of a unit."""

    unit: str
    busy: Cycles
    idle: Cycles
    waits: Annotated[dict[str, int], meaning("NPU cycles, by cause.")]


class RecurrentEntry(Entry, frozen=True):
    """A recurrent layer by step and gate."""

    layer: str
    steps: Annotated[tuple[int, ...], meaning("NPU cycles of each step.")]
    gates: Annotated[tuple[LayerEntry, ...], meaning("Rows of the gates and of the states, each over all steps; they sum to the layer.")]


class ReplayDocument(Document, frozen=True):
    """The facts that every document of a replay has."""

    model: str
    planner: str
    accelerator: str
    memory_system: MemorySystemEntry
    timing: Timing
    tools: Tools
    summary: SummaryEntry
    ends: NetworkEnds
    carried_bytes: CarriedBytes
    inference: Inferred
    layers: tuple[LayerEntry, ...]


class SimulateDocument(ReplayDocument, frozen=True):
    """A replay on its own, with the parts that were requested."""

    hazards: Hazards
    recurrent: Annotated[tuple[RecurrentEntry, ...], meaning("Recurrent layers (LSTM), in order; each is one of `layers`, too.")]
    stalls: tuple[StallEntry, ...] | UnsetType = UNSET
    measured: Measured | UnsetType = UNSET
    findings: tuple[FindingEntry, ...] | UnsetType = UNSET
    cpu_operations: CpuOperations | UnsetType = UNSET


class SimulateScheduleDocument(SimulateDocument, frozen=True):
    """A replay of a schedule of ours."""

    stream: Stream | UnsetType = UNSET
    command: Literal["simulate schedule"] = "simulate schedule"
    schema: Annotated[Literal[17], STRUCTURE] = 17
    version: ProductVersion = VERSION


class UnprovenEntry(Entry, frozen=True):
    """A kernel of a kind whose beats no published inference shows."""

    program: int
    operation: int
    reason: str


class SimulateVelaDocument(SimulateDocument, frozen=True):
    """A replay of a schedule of Vela's."""

    unproven: tuple[UnprovenEntry, ...] | UnsetType = UNSET
    command: Literal["simulate vela"] = "simulate vela"
    schema: Annotated[Literal[16], STRUCTURE] = 16
    version: ProductVersion = VERSION


class SideFiguresEntry(Entry, frozen=True):
    """Bytes and cycles of ours or of Vela's."""

    bytes: int
    cycles: Cycles


class PromiseEntry(Entry, frozen=True):
    """The promise of a compilation, the figures of both sides, and the side that was written."""

    promise: str
    ours: SideFiguresEntry | None
    vela: SideFiguresEntry | None
    written: Literal["ours", "vela"]
    reason: str
    without_vela: Annotated[str, meaning("Why there is nothing of Vela's to compare with; empty if there is.")]


_PROMISE = meaning(
    "The check before anything is written: ours beside Vela's for the same command line, bytes of SRAM that a user sets aside, "
    "and why Vela's was written (empty if ours was)."
)


class CompileDocument(ReplayDocument, frozen=True):
    """A compilation with its promise and its files."""

    promise: Annotated[PromiseEntry, _PROMISE]
    runtimes: Runtimes
    recomputed_macs: RecomputedMacs
    files: Files
    cpu_operations: CpuOperations | UnsetType = UNSET
    command: Literal["compile"] = "compile"
    schema: Annotated[Literal[10], STRUCTURE] = 10
    version: ProductVersion = VERSION
