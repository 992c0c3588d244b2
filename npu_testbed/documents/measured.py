"""The part of a replay's document that holds a measurement."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import Entry, meaning
from npu_testbed.documents.units import RelativeError

_MeasuredCycles = Annotated[int, meaning("NPU cycles that were measured, rounded.")]
_ReplayedCycles = Annotated[int, meaning("NPU cycles of the replay.")]


class MeasuredLayerEntry(Entry, frozen=True):
    """A layer as it was measured and as it was replayed."""

    layer: str
    operator: str
    kernels: int
    measured_cycles: _MeasuredCycles
    margin_cycles: Annotated[int | None, meaning("Half of the 95 % interval of what was sampled, in NPU cycles; null where nothing was.")]
    replayed_cycles: _ReplayedCycles
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
    layers: tuple[MeasuredLayerEntry, ...]
    counters: Annotated[tuple[CounterEntry, ...], meaning("PMU events that both sides count, of a measurement of whole inferences.")]


Measured = Annotated[MeasurementEntry, meaning("The measurement beside the replay, with --measured.")]
