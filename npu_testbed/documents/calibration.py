"""The documents of ``calibrate``."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import defstruct
from msgspec.structs import asdict

from npu_model.timing import DEFAULT_TIMING, BlockdepRule
from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import Cycles, RelativeError, Seed, Sha256, Tools
from validation.calibrate.calibration import CheckedPoint
from validation.calibrate.evaluation import Errors
from validation.calibrate.profile import ErrorFigures, FittedPoint, FittedValue, FoldErrors

if TYPE_CHECKING:
    from typing import TypeAlias


class CheckedPointEntry(CheckedPoint, Entry, frozen=True, kw_only=True):
    """A measurement in replay, by the profile and by the default parameters."""

    cycles: Cycles
    default_cycles: Cycles
    error: RelativeError
    default_error: float


class CalibrateCheckDocument(Document, frozen=True, tag="calibrate check"):
    """A profile held to measurements."""

    profile: str
    passed: bool
    generalises: bool
    drifted: tuple[str, ...]
    seen: Errors
    unseen: Errors
    points: tuple[CheckedPointEntry, ...]
    schema: Annotated[Literal[2], STRUCTURE] = 2


class CloseSetEntry(Entry, frozen=True):
    """A set of parameter values within the noise of a fit."""

    values: Annotated[tuple[str, ...], meaning("Values in the order of the fitted parameters.")]
    mean: float
    draws: Annotated[int, meaning("Draws of the bootstrap that the set suits best.")]


class FitPointEntry(FittedPoint, Entry, frozen=True):
    """A measurement that a profile was fitted to."""

    sha256: Sha256
    cycles: Cycles


_TEXTS = (BlockdepRule, Fraction)


def _kind(name: str, default: object) -> Any:
    """The type of a timing parameter in a document: rules and ratios of whole numbers are text."""
    return Cycles if name.endswith("start_cycles") else str if isinstance(default, _TEXTS) else type(default)


if TYPE_CHECKING:
    TimingParametersEntry: TypeAlias = Any
else:
    TimingParametersEntry = defstruct(
        "TimingParametersEntry", [(name, _kind(name, one)) for name, one in asdict(DEFAULT_TIMING).items()], bases=(Entry,), frozen=True
    )


class ProfileEntry(Entry, frozen=True):
    """A profile as its file has it."""

    name: str
    date: str
    seed: Seed
    timing: TimingParametersEntry
    tools: Tools
    fitted: tuple[FittedValue, ...]
    undecided: Annotated[tuple[str, ...], meaning("Fitted parameters of which other values are as good.")]
    sets: Annotated[tuple[CloseSetEntry, ...], meaning("Parameter sets within the noise of the measurements, the fit first.")]
    errors: ErrorFigures
    folds: tuple[FoldErrors, ...]
    points: tuple[FitPointEntry, ...]


class CalibrateFitDocument(Document, frozen=True, tag="calibrate fit"):
    """A profile and its file."""

    profile: ProfileEntry
    output: str
    schema: Annotated[Literal[5], STRUCTURE] = 5
