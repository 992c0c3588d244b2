"""The documents of ``simulate`` and of ``compile``, which has the same facts of a replay."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.inference import CpuOperations, FindingEntry, Inferred
from npu_testbed.documents.units import (
    Bytes,
    CarriedBytes,
    Cycles,
    Files,
    Hazards,
    InputsOutputs,
    Macs,
    MemorySystemEntry,
    RecomputedMacs,
    RelativeError,
    Runtimes,
    Timing,
    Tools,
)
from sim.views.layers import LayerRow

_MeasuredCycles = Annotated[int, meaning("NPU cycles that were measured, rounded.")]
_ReplayedCycles = Annotated[int, meaning("NPU cycles of the replay.")]


_MARGIN = meaning("Half of the 95 % interval of what was sampled, in NPU cycles; null where nothing was.")


class MeasuredLayerEntry(Entry, frozen=True):
    """A layer as it was measured and as it was replayed."""

    layer: str
    operator: str
    kernels: int
    measured: _MeasuredCycles = field(name="measured_cycles")
    margin: Annotated[int | None, _MARGIN] = field(name="margin_cycles")
    replayed: _ReplayedCycles = field(name="replayed_cycles")
    error: RelativeError | None


class CounterEntry(Entry, frozen=True):
    """An event of the PMU that both sides count."""

    counter: str
    measured: int
    replayed: int


class MeasurementEntry(Entry, frozen=True):
    """A measurement, the layers with the largest difference first."""

    kind: str
    runs: int
    is_scaled: Annotated[bool, meaning("Whether the measurement counts no cycles and was taken to last as long as the replay.")]
    measured_cycles: _MeasuredCycles
    replayed_cycles: _ReplayedCycles
    rows: tuple[MeasuredLayerEntry, ...] = field(name="layers")
    counters: Annotated[tuple[CounterEntry, ...], meaning("PMU events that both sides count, of a measurement of whole inferences.")]


Measured = Annotated[MeasurementEntry, meaning("The measurement beside the replay, with --measured.")]


class PieceEntry(Entry, frozen=True):
    """A command stream of the run."""

    until: Annotated[int, meaning("Rows that must have arrived when it begins.")] = field(name="until_row")
    cycles: Cycles


_RING = meaning("Rows of the ring in which the input lies; all of its rows where it lies in a whole frame.")
_NEVER_WAITS = meaning("Most NPU cycles from row to row at which the NPU never waits once it has begun.")


class StreamEntry(Entry, frozen=True):
    """The run while the rows of an input arrive one by one."""

    name: str = field(name="input")
    rows: int
    row_bytes: Bytes
    cycles_per_row: Cycles
    latency: Annotated[int, meaning("NPU cycles from the arrival of the last row to the result.")] = field(name="latency_cycles")
    waiting: Cycles = field(name="waiting_cycles")
    never_waits: Annotated[int | None, _NEVER_WAITS] = field(name="never_waits_cycles_per_row")
    held_rows: Annotated[int, meaning("Most rows that have arrived and are still to be read at one time.")]
    ring: Annotated[int, _RING] = field(name="ring_rows")
    pieces: Annotated[tuple[PieceEntry, ...], meaning("The command streams in order.")]


Stream = Annotated[StreamEntry, meaning("The run while the rows of an input arrive, with --stream.")]


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


class LayerEntry(LayerRow, Entry, frozen=True, kw_only=True):
    """A layer of a replay."""

    cycles: Cycles
    share: Annotated[float, meaning("Part of all NPU cycles, 0 to 1.")]
    axi0_read_bytes: Bytes
    axi0_write_bytes: Bytes
    axi1_read_bytes: Bytes
    axi1_write_bytes: Bytes
    mac_utilisation: _Utilisation


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
    inputs_outputs: InputsOutputs
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


class SimulateScheduleDocument(SimulateDocument, frozen=True, tag="simulate schedule"):
    """A replay of a schedule of ours."""

    stream: Stream | UnsetType = UNSET
    schema: Annotated[Literal[18], STRUCTURE] = 18


class UnprovenEntry(Entry, frozen=True):
    """A kernel of a kind whose beats no published inference shows."""

    program: int
    operation: int
    reason: str


class SimulateVelaDocument(SimulateDocument, frozen=True, tag="simulate vela"):
    """A replay of a schedule of Vela's."""

    unproven: tuple[UnprovenEntry, ...] | UnsetType = UNSET
    schema: Annotated[Literal[17], STRUCTURE] = 17


class SideFiguresEntry(Entry, frozen=True):
    """Bytes and cycles of ours or of Vela's."""

    memory: int = field(name="bytes")
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


class CompileDocument(ReplayDocument, frozen=True, tag="compile"):
    """A compilation with its promise and its files."""

    promise: Annotated[PromiseEntry, _PROMISE]
    runtimes: Runtimes
    recomputed_macs: RecomputedMacs
    files: Files
    cpu_operations: CpuOperations | UnsetType = UNSET
    schema: Annotated[Literal[11], STRUCTURE] = 11
