"""The documents of ``validate fvp``: the scorecard of published counters, and a live run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry
from npu_testbed.documents.units import Cycles, RelativeError, Timing
from validation.fvp.references.records import ReferencePoint, SingleOperator, Sweep, WholeRun
from validation.fvp.scores import ScoreBar, ScoreSummary


class CountedEntry(Entry, frozen=True):
    """A counter, ours and the FVP's."""

    ours: int
    fvp: int
    error: RelativeError


class PortCountersEntry(Entry, frozen=True):
    """Beats by counter of the PMU."""

    axi0_rd: CountedEntry | UnsetType = field(default=UNSET, name="AXI0_RD")
    axi0_wr: CountedEntry | UnsetType = field(default=UNSET, name="AXI0_WR")
    axi1_rd: CountedEntry | UnsetType = field(default=UNSET, name="AXI1_RD")
    sram_rd: CountedEntry | UnsetType = field(default=UNSET, name="SRAM_RD")
    sram_wr: CountedEntry | UnsetType = field(default=UNSET, name="SRAM_WR")
    ext_rd: CountedEntry | UnsetType = field(default=UNSET, name="EXT_RD")
    ext_wr: CountedEntry | UnsetType = field(default=UNSET, name="EXT_WR")


class FvpBarEntry(ScoreBar, Entry, frozen=True, kw_only=True):
    """A bar of the scorecard."""

    passed: bool
    verdict: str


class WithinEntry(Entry, frozen=True):
    """Shares of the points whose error is at most 1, 2 and 5 per cent."""

    one: float = field(name="0.01")
    two: float = field(name="0.02")
    five: float = field(name="0.05")


class PointsSummaryEntry(ScoreSummary, Entry, frozen=True):
    """Errors of the points with or without timing adapters."""

    within: WithinEntry  # type: ignore[assignment]  # by the names of the shares


class PublishedPointEntry(ReferencePoint, Entry, frozen=True):
    """A published point in replay, with Vela's estimate."""

    beats: PortCountersEntry  # type: ignore[assignment]  # with ours
    cycles: Cycles
    error: RelativeError
    vela_cycles: Cycles
    vela_error: float


class WholeRunEntry(WholeRun, Entry, frozen=True):
    """A published run of small kernels in replay."""

    beats: PortCountersEntry  # type: ignore[assignment]  # with ours
    active: int
    cycles: Cycles
    error: RelativeError


class KnobEntry(Sweep, Entry, frozen=True, kw_only=True):
    """A run of a published sweep of one parameter of the timing adapters, in replay."""

    cycles: Cycles
    cycles_on_grid: int
    error: RelativeError
    resolution: float


class ReplayedOperatorEntry(SingleOperator, Entry, frozen=True):
    """A published operator on its own in replay."""

    kernel: tuple[int, ...]  # type: ignore[assignment]  # one type with those of other documents
    stride: tuple[int, ...]  # type: ignore[assignment]
    expected_cycles: Cycles
    cycles: Cycles
    mac_cycles: Cycles
    error: RelativeError


class ValidateFvpDocument(Document, frozen=True, tag="validate fvp"):
    """The scorecard; errors are ratios."""

    claim: str
    passed: bool
    bars: tuple[FvpBarEntry, ...]
    summaries: tuple[PointsSummaryEntry, ...]
    points: tuple[PublishedPointEntry, ...]
    whole_runs: tuple[WholeRunEntry, ...]
    u65: tuple[PublishedPointEntry, ...]
    u85: tuple[PublishedPointEntry, ...]
    old: tuple[PublishedPointEntry, ...]
    sweeps: tuple[KnobEntry, ...]
    operators: tuple[ReplayedOperatorEntry, ...]
    timing: Timing
    schema: Annotated[Literal[7], STRUCTURE] = 7


class LiveCounterEntry(CountedEntry, frozen=True):
    """A counter by its name."""

    name: str


class ValidateFvpLiveDocument(Document, frozen=True, tag="validate fvp --live"):
    """A network on a live FVP; errors are ratios."""

    claim: str
    accelerator: str
    memory_system: str
    vela: str
    fvp: str
    firmware_sha256: str
    compiled_sha256: str
    counters: tuple[LiveCounterEntry, ...]
    operations: tuple[dict[str, Any], ...]
    timing: Timing
    schema: Annotated[Literal[2], STRUCTURE] = 2
