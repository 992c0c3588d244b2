"""The rows of a measurement and of the replay, layer by layer.

Traces and samples say how far the NPU had read its command stream, not when a kernel ended. So both sides are cut in the same way
(:mod:`validation.fvp.live.operations`): a kernel lasts from the issue of its command to the issue of the next command. The time before the
first kernel of a stream is a row of its own. A table of layers is compared with the cycles of ``simulate``'s table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from npu_model.errors import InputError, did_you_mean
from npu_model.printable import shown
from npu_model.program import WORD_BYTES, KernelOperation
from npu_testbed.measured.reading import Counters, Measured, PerLayer, Sampled, Traced
from sim import NetworkReplay, Replay
from sim.views.layers import layer_rows, layers
from validation.fvp.live.counters import ACTIVE
from validation.fvp.live.operations import durations
from validation.fvp.live.pmu_trace import StreamTrace
from validation.fvp.scores import relative

_START = "before the first kernel"
_NORMAL = 1.96
"""Half the width of the 95 % interval of a normal distribution, in standard deviations."""


class MeasuredRow(Struct, frozen=True):
    """One layer: NPU cycles of both sides. ``margin`` is half of the 95 % interval of ``measured``, None without samples."""

    layer: str
    operator: str
    kernels: int
    measured: int
    replayed: int
    margin: int | None = None

    @property
    def difference(self) -> int:
        """Excess of the replay in cycles."""
        return self.replayed - self.measured

    @property
    def error(self) -> float | None:
        """Relative error of the replay; None without a measurement."""
        return relative(self.replayed, self.measured) if self.measured else None


class Beside(Struct, frozen=True):
    """The rows, the largest difference first.

    ``kind`` is "trace", "samples", "layers" or "counters" (of the whole network), ``runs`` the number of inferences or of samples,
    ``is_scaled`` whether no cycles were counted, so that the measurement was taken to last as long as the replay. ``missing`` layers
    were not measured. ``counters`` has the PMU events that both sides count: name, measured, replayed.
    """

    kind: str
    runs: int
    is_scaled: bool
    rows: tuple[MeasuredRow, ...]
    missing: int = 0
    counters: tuple[tuple[str, int, int], ...] = ()


class _Cuts(Struct, frozen=True):
    """A stream cut where kernels are issued: byte offsets of their commands; name, operator and cycles of each slot, the start first."""

    bytes: int
    offsets: tuple[int, ...]
    slots: tuple[tuple[str, str, int], ...]


def _cuts(network: NetworkReplay) -> list[_Cuts]:
    several = len(network.replays) > 1
    rows = layer_rows(network)
    names = {(one.number, op.index): row for one, row in zip(layers(network), rows, strict=True) for op in one.operations}

    def cut(number: int, replay: Replay) -> _Cuts:
        kernels = [one for one in replay.operations if isinstance(one.op, KernelOperation)]
        issued = [one.issued for one in kernels]
        start = (f"{number}:{_START}" if several else _START, "", issued[0] if issued else replay.cycles)
        cycles = durations(issued, replay.cycles)
        found = ((names[number, one.index], int(spent)) for one, spent in zip(kernels, cycles, strict=True))
        named = ((row.layer, row.operator, spent) for row, spent in found)
        return _Cuts(sum(replay.program.words) * WORD_BYTES, tuple(replay.program.kernel_offsets.values()), (start, *named))

    return [cut(number, replay) for number, replay in enumerate(network.replays)]


def _require_within(offset: int, number: int, cut: _Cuts) -> None:
    if offset > cut.bytes:
        raise InputError(
            f"The measurement reads at byte {offset} of stream {number}, which has {cut.bytes} bytes: "
            "count from the stream's beginning (QBASE), and measure the file that is replayed."
        )


def _spans(number: int, stream: StreamTrace, cut: _Cuts) -> list[float]:
    """Duration of each slot in one run of a stream."""
    _require_within(stream.offsets[-1], number, cut)
    if cut.offsets and stream.offsets[-1] <= cut.offsets[-1]:
        raise InputError(
            f"The measurement ends at byte {stream.offsets[-1]} of stream {number}, whose last kernel is at byte {cut.offsets[-1]}: "
            "measure to the end, and the file that is replayed."
        )
    passed = [stream.passed(offset) for offset in cut.offsets]
    return durations([stream.start, *passed], stream.end)


def _traced(cuts: Sequence[_Cuts], trace: Traced, cycles: int | None, replayed: int) -> tuple[list[list[float]], int, bool]:
    runs, rest = divmod(len(trace.streams), len(cuts))
    if rest or not runs:
        raise InputError(
            f"The measurement has {len(trace.streams)} runs of a command stream and the network {len(cuts)} streams: "
            "measure whole inferences."
        )
    times = [
        [sum(slot) / runs for slot in zip(*(_spans(number, one, cut) for one in trace.streams[number :: len(cuts)]), strict=True)]
        for number, cut in enumerate(cuts)
    ]
    whole = sum(map(sum, times))
    if whole <= 0:
        raise InputError("The measurement lasts 0 cycles: give the cycle counter of each sample.")
    is_scaled = cycles is None and not trace.in_cycles
    unit = 1.0 if cycles is None and trace.in_cycles else (replayed if cycles is None else cycles) / whole
    return [[spent * unit for spent in stream] for stream in times], runs, is_scaled


def _slot_samples(cuts: Sequence[_Cuts], sampled: Sampled) -> list[list[int]]:
    """Samples of each slot: the NPU is at the last kernel whose command it has passed."""
    counts = [[0] * len(cut.slots) for cut in cuts]
    for number, offset, count in sampled.samples:
        if number >= len(cuts):
            raise InputError(f"The measurement has samples of stream {number} and the network {len(cuts)} streams: the first one is 0.")
        _require_within(offset, number, cuts[number])
        counts[number][bisect_left(cuts[number].offsets, offset)] += count
    return counts


def _layered(replay: NetworkReplay, table: PerLayer) -> Beside:
    ours = {row.layer: row for row in layer_rows(replay)}
    for name, _ in table.cycles:
        if name not in ours:
            near = did_you_mean(name, ours)
            raise InputError(f"Layer {shown(name)} of the measurement is none of the network's{near}: take the names that --csv writes.")
    rows = (MeasuredRow(name, ours[name].operator, ours[name].kernels, cycles, ours[name].cycles) for name, cycles in table.cycles)
    return Beside("layers", 1, is_scaled=False, rows=_sorted(rows), missing=len(ours) - len(table.cycles))


def _counted(replay: NetworkReplay, measured: Counters) -> Beside:
    """The counters of the whole network, without those that the replay does not count."""
    ours: Counter[str] = Counter()
    for one in replay.replays:
        ours.update(one.pmu())
    both = [(name, theirs, ours[name]) for name, theirs in measured.values if name in ours]
    kernels = sum(len(one.program.kernels) for one in replay.replays)
    rows = (MeasuredRow("whole network", "", kernels, dict(measured.values)[ACTIVE], replay.cycles),)
    return Beside("counters", 1, is_scaled=False, rows=rows, counters=tuple(sorted(both)))


def _sorted(rows: Iterable[MeasuredRow]) -> tuple[MeasuredRow, ...]:
    return tuple(sorted(rows, key=lambda row: -abs(row.difference)))


def _by_layer(cuts: Sequence[_Cuts], spent: Sequence[Sequence[float]]) -> list[MeasuredRow]:
    """One row for all slots of a name; measured cycles are rounded."""
    found: dict[str, tuple[str, int, float, int]] = {}
    for cut, cycles in zip(cuts, spent, strict=True):
        for (name, operator, ours), theirs in zip(cut.slots, cycles, strict=True):
            _, kernels, measured, replayed = found.get(name, ("", 0, 0.0, 0))
            found[name] = operator, kernels + bool(operator), measured + theirs, replayed + ours
    return [MeasuredRow(name, op, kernels, round(measured), replayed) for name, (op, kernels, measured, replayed) in found.items()]


def _margin(cycles: int, whole: int, samples: int) -> int:
    """Half of the 95 % interval of cycles from samples, after Agresti and Coull, so that zero samples do not mean certainty.

    >>> _margin(50_000, 100_000, 400), _margin(0, 100_000, 400)
    (4876, 684)
    """
    share = (samples * cycles / whole + 2) / (samples + 4)
    return round(_NORMAL * sqrt(share * (1 - share) / (samples + 4)) * whole)


def beside_measured(replay: NetworkReplay, measured: Measured, cycles: int | None = None) -> Beside:
    """The measurement and the replay. ``cycles`` is NPU ACTIVE of a measured inference, if the measurement does not count cycles.

    InputError if the measurement is not of this network, or ``cycles`` are given for a table of layers.
    """
    if isinstance(measured, PerLayer):
        if cycles is not None:
            raise InputError(f"--measured-cycles {cycles} was given for a table of layers, which has cycles of its own: leave it out.")
        return _layered(replay, measured)
    if isinstance(measured, Counters):
        if cycles is not None:
            raise InputError(f"--measured-cycles {cycles} was given for a log, which has {ACTIVE} of its own: leave it out.")
        return _counted(replay, measured)
    cuts = _cuts(replay)
    if isinstance(measured, Traced):
        spent, runs, is_scaled = _traced(cuts, measured, cycles, replay.cycles)
        return Beside("trace", runs, is_scaled, _sorted(_by_layer(cuts, spent)))
    counts = _slot_samples(cuts, measured)
    samples, whole = sum(map(sum, counts)), replay.cycles if cycles is None else cycles
    rows = _by_layer(cuts, [[count * whole / samples for count in stream] for stream in counts])
    return Beside("samples", samples, cycles is None, _sorted(replace(row, margin=_margin(row.measured, whole, samples)) for row in rows))
