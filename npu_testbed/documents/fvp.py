"""The documents of ``validate fvp``: the scorecard of published counters, and a live run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry
from npu_testbed.documents.units import Cycles, RelativeError, Timing


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


class FvpBarEntry(Entry, frozen=True):
    """A bar of the scorecard; ``known`` explains a bar that is missed."""

    what: str
    value: float
    limit: float
    count: int
    known: str
    passed: bool
    verdict: str


class WithinEntry(Entry, frozen=True):
    """Shares of the points whose error is at most 1, 2 and 5 per cent."""

    one: float = field(name="0.01")
    two: float = field(name="0.02")
    five: float = field(name="0.05")


class PointsSummaryEntry(Entry, frozen=True):
    """Errors of the points with or without timing adapters."""

    adapters: bool
    count: int
    mean: float
    worst: float
    vela_mean: float
    vela_worst: float
    within: WithinEntry


class PublishedRunEntry(Entry, frozen=True):
    """A published run of a network in replay."""

    network: str
    accelerator: str
    source: str
    stream_sha256: str
    active: int
    total: int
    cycles: Cycles
    error: RelativeError
    beats: PortCountersEntry


class PublishedPointEntry(PublishedRunEntry, frozen=True):
    """A published point, with Vela's estimate."""

    platform: str
    adapters: bool
    vela_cycles: Cycles
    vela_error: float


class WholeRunEntry(PublishedRunEntry, frozen=True):
    """A published run of small kernels."""

    optimise: str


class KnobEntry(Entry, frozen=True):
    """A run of a published sweep of one parameter of the timing adapters."""

    network: str
    accelerator: str
    source: str
    knob: str
    sram_cap: int
    ext_cap: int
    ext_latency: int
    active: int | None
    total: int
    cycles: Cycles
    cycles_on_grid: int
    error: RelativeError
    resolution: float


class ExtentEntry(Entry, frozen=True):
    """A height, a width and a depth."""

    height: int
    width: int
    depth: int


class PaddingEntry(Entry, frozen=True):
    """Padding on four sides."""

    top: int
    left: int
    bottom: int
    right: int


class ReplayedOperatorEntry(Entry, frozen=True):
    """A published operator on its own in replay."""

    source: str
    accelerator: str
    depthwise: bool
    ifm: ExtentEntry
    ofm: ExtentEntry
    block: ExtentEntry
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: PaddingEntry
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
