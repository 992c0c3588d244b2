"""The documents of ``compare`` and of ``validate vela``, which may hold comparisons too."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.frontier import FrontierEntry
from npu_testbed.documents.inference import FindingEntry, Inferred
from npu_testbed.documents.replay import CompileDocument
from npu_testbed.documents.units import Bytes, Cycles, InputsOutputs, RecomputedMacs
from validation.vela.replays import VelaScore

_CacheSize = Annotated[int | None, meaning("Bytes of the arena that was asked for; null for Vela's default.")]
_CyclesRatio = Annotated[float | None, meaning("Our cycles by Vela's.")]


class VelaPointEntry(Entry, frozen=True):
    """A schedule of Vela's."""

    core: str
    optimise: str
    arena_cache_size: _CacheSize
    memory: Bytes = field(name="memory_bytes")
    cycles: Cycles
    overflows: bool


class OurPointEntry(Entry, frozen=True):
    """A schedule of ours."""

    memory: Bytes = field(name="memory_bytes")
    cycles: Cycles
    recomputed_macs: RecomputedMacs
    digest: str = field(name="schedule_sha256")


class AnswerEntry(Entry, frozen=True):
    """Our schedule under a condition; null where none meets it."""

    condition: str
    ours: OurPointEntry | None
    memory_ratio: Annotated[float | None, meaning("Our bytes by Vela's.")]
    cycles_ratio: _CyclesRatio


class ArenaSizeEntry(Entry, frozen=True):
    """Both sides in an arena of one size."""

    arena_cache_size: _CacheSize
    vela: VelaPointEntry | None
    ours: OurPointEntry | None
    cycles_ratio: _CyclesRatio


class GapEntry(Entry, frozen=True):
    """A schedule of Vela's that none of ours matches, and the closest of ours."""

    vela: dict[str, Any]
    closest: dict[str, Any] | None


class VerdictsEntry(Entry, frozen=True):
    """Where Vela is ahead."""

    more_bytes: Annotated[bool, meaning("Bytes.")]
    more_cycles: Annotated[bool, meaning("NPU cycles.")]
    slower_at: tuple[int, ...]
    gaps: tuple[GapEntry, ...]
    passed: bool


class ComparisonEntry(Entry, frozen=True):
    """Our schedules of a network, and Vela's."""

    frontier: FrontierEntry
    inputs_outputs: InputsOutputs
    separate_io_regions: Annotated[
        bool, meaning("Whether Vela's inputs and outputs are outside its arena, as those of ours are that have a home.")
    ]
    noise: float
    points: tuple[VelaPointEntry, ...] = field(name="vela")
    vela_failures: tuple[str, ...]
    size: VelaPointEntry | None = field(name="vela_size")
    performance: VelaPointEntry | None = field(name="vela_performance")
    answers: tuple[AnswerEntry, ...]
    sweep: tuple[ArenaSizeEntry, ...]
    verdicts: VerdictsEntry


class EnergyRatios(Entry, frozen=True):
    """Energies by one table, as ratios."""

    table: str
    ratios: Annotated[
        tuple[float | None, ...], meaning("Our energy for each unit of Vela's, one for each answer; null where ours has no schedule.")
    ]


class InsteadOfEntry(Entry, frozen=True):
    """Bytes and cycles of an answer that another one replaced."""

    memory: int = field(name="bytes")
    cycles: int


class RobustAnswerEntry(Entry, frozen=True):
    """The ratio of an answer under other timings."""

    ratio: float
    low: float
    high: float
    bound: float | None
    against: tuple[str, ...] = field(name="depends_on")
    holds_at: int | None
    instead_of: InsteadOfEntry | None


class RobustEntry(Entry, frozen=True):
    """The answers under other timings, and the changes that were tried."""

    changes: tuple[str, ...]
    answers: tuple[RobustAnswerEntry | None, ...]


class ComparedNetworkEntry(ComparisonEntry, frozen=True):
    """A comparison with the time of an inference, and the other requested facts."""

    inference: Inferred
    robust: RobustEntry | UnsetType = UNSET
    energy: Annotated[EnergyRatios, meaning("The ratio of energies by a table of the user's, with --energy.")] | UnsetType = UNSET


class CompareDocument(Document, frozen=True, tag="compare"):
    """Comparisons of networks, and the notes below their summary."""

    networks: tuple[ComparedNetworkEntry, ...]
    summary: tuple[str, ...]
    findings: tuple[FindingEntry, ...] | UnsetType = UNSET
    schema: Annotated[Literal[13], STRUCTURE] = 13


class FailureEntry(Entry, frozen=True):
    """A task that failed, and the reason."""

    network: str
    accelerator: str
    what: str
    reason: str


class ComparisonSummaryEntry(Entry, frozen=True):
    """Comparisons on one accelerator and memory system, and by verdict the networks on which Vela is ahead."""

    accelerator: str
    memory_system: str
    networks: tuple[ComparisonEntry, ...]
    failures: tuple[FailureEntry, ...]
    lost: tuple[str, ...]
    worse_in_both: tuple[str, ...]
    slower_at_a_size: tuple[str, ...]
    passed: bool


class VelaScoreEntry(VelaScore, Entry, frozen=True):
    """A schedule of Vela's in replay, and Vela's own figures."""

    cycles: Cycles
    vela_cycles: Cycles
    cpu_operators: Annotated[int, meaning("Operators on the CPU, by name.")]
    verdict: str  # type: ignore[assignment]  # its name
    estimate_error: float
    passed: bool


class ValidateVelaDocument(Document, frozen=True, tag="validate vela"):
    """Scores of Vela's schedules, with comparisons if asked for."""

    passed: bool
    networks: tuple[VelaScoreEntry, ...]
    comparisons: tuple[ComparisonSummaryEntry, ...] | UnsetType = UNSET
    failures: tuple[FailureEntry, ...] | UnsetType = UNSET
    schema: Annotated[Literal[7], STRUCTURE] = 7


class CompilationsDocument(Document, frozen=True, tag="compile MODEL MODEL"):
    """The compilations of several networks."""

    compilations: Annotated[tuple[CompileDocument, ...], meaning("The document of each network that was compiled, in their order.")]
    failures: tuple[FailureEntry, ...]
    schema: Annotated[Literal[3], STRUCTURE] = 3
