"""The documents of ``calibrate``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, VERSION, Document, Entry, ProductVersion, meaning
from npu_testbed.documents.units import Cycles, RelativeError, Seed, Sha256, Tools


class PortBeatsEntry(Entry, frozen=True):
    """Beats of a port, ours and the FVP's."""

    port: str
    ours: int
    fvp: int


class CheckedPointEntry(Entry, frozen=True):
    """A measurement in replay, by the profile and by the default parameters."""

    name: str
    npu_active: int
    recorded: int | None
    cycles: Cycles
    default_cycles: Cycles
    beats: tuple[PortBeatsEntry, ...]
    error: RelativeError
    default_error: float


class ErrorsEntry(Entry, frozen=True):
    """Errors of some measurements."""

    count: int
    mean: float
    worst: float


class CalibrateCheckDocument(Document, frozen=True):
    """A profile held to measurements."""

    profile: str
    passed: bool
    generalises: bool
    drifted: tuple[str, ...]
    seen: ErrorsEntry
    unseen: ErrorsEntry
    points: tuple[CheckedPointEntry, ...]
    command: Literal["calibrate check"] = "calibrate check"
    schema: Annotated[Literal[2], STRUCTURE] = 2
    version: ProductVersion = VERSION


class FittedEntry(Entry, frozen=True):
    """A parameter that was fitted."""

    name: str
    value: str
    default: str
    lower: str
    upper: str
    interval_low: float
    interval_high: float


class CloseSetEntry(Entry, frozen=True):
    """A set of parameter values within the noise of a fit."""

    values: Annotated[tuple[str, ...], meaning("Values in the order of the fitted parameters.")]
    mean: float
    draws: Annotated[int, meaning("Draws of the bootstrap that the set suits best.")]


class FitErrorsEntry(Entry, frozen=True):
    """Errors of a fit in its sample."""

    mean: float
    worst: float
    default_mean: float
    default_worst: float
    mean_low: float
    mean_high: float


class FoldEntry(ErrorsEntry, frozen=True):
    """Errors on networks that were left out of a fit."""

    kind: str
    left_out: str


class FitPointEntry(Entry, frozen=True):
    """A measurement that a profile was fitted to."""

    name: str
    sha256: Sha256
    source: str
    npu_active: int
    cycles: Cycles


class TimingParametersEntry(Entry, frozen=True):
    """All timing parameters: ratios of whole numbers and rules as text."""

    aligned_bursts: bool
    blockdep: str
    buffer_slots: int
    command_cycles_per_word: int
    decoder_cycles_per_channel: int
    decodes_streams: bool
    depthwise_delays: bool
    drain_responses: int
    grant: int
    ifm_burst_divisor: int
    kept_ifm_blocks: int
    kernel_start_cycles: Cycles
    lookahead: int
    output_scale: str
    output_start_cycles: Cycles
    pool_floor: int
    pool_passes: bool
    posted_writes: bool
    shared_cap: bool
    shram_drains: bool
    sliding_cap: bool
    weights_ahead: bool
    weights_at_once: int


class ProfileEntry(Entry, frozen=True):
    """A profile as its file has it."""

    name: str
    date: str
    seed: Seed
    timing: TimingParametersEntry
    tools: Tools
    fitted: tuple[FittedEntry, ...]
    undecided: Annotated[tuple[str, ...], meaning("Fitted parameters of which other values are as good.")]
    sets: Annotated[tuple[CloseSetEntry, ...], meaning("Parameter sets within the noise of the measurements, the fit first.")]
    errors: FitErrorsEntry
    folds: tuple[FoldEntry, ...]
    points: tuple[FitPointEntry, ...]


class CalibrateFitDocument(Document, frozen=True):
    """A profile and its file."""

    profile: ProfileEntry
    output: str
    command: Literal["calibrate fit"] = "calibrate fit"
    schema: Annotated[Literal[5], STRUCTURE] = 5
    version: ProductVersion = VERSION
