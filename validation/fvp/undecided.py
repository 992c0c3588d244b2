"""Changes of the timing model that public data cannot exclude: what a claim about cycles had better not depend on.

Run as ``python -m validation.fvp.undecided``, which finds them again: about two minutes on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.ablation import ABLATIONS, CANDIDATES, AblationScore, ablate
from validation.fvp.references.records import points, whole_runs
from validation.tables import Table, percent, share

BOUND = 1.5
"""The largest mean error over all classes that a change may have, as a multiple of the full model's."""

_CHANGES = dict((*ABLATIONS, *CANDIDATES))

NAMES = (
    "weights wait for the kernel's dependencies",
    "BLOCKDEP 0 waits for one response",
    "weights of a step all at once",
    "no delay between depthwise kernel steps",
    "weights dealt in proportion, 8 a cycle",
    "transactions cut where they start",
    "IFM reads of 64 bytes, not 32",
    "reads and writes with a cap each",
    "cap counted anew with each period",
    "command words parsed one a cycle",
    "ports: one transaction a turn, not 8",
    "ports: no issue ahead of the data path",
    "AO: 8 cycles before every block",
)
"""The changes within the bound, by their names in the tables of the decision record on the timing model.

Every pair of them is within the bound, too, except for :data:`EXCLUDED`.
"""

EXCLUDED = (
    ("weights wait for the kernel's dependencies", "weights of a step all at once"),
    ("IFM reads of 64 bytes, not 32", "reads and writes with a cap each"),
)
"""The pairs that are not: together they have 1.66 and 1.58 times the full model's mean error."""


class Change(Struct, frozen=True):
    """One change of the model, or two together: ``names`` says which, ``fields`` are the parameters that it sets."""

    names: tuple[str, ...]
    fields: tuple[tuple[str, object], ...]

    @classmethod
    def of(cls, *names: str) -> Change:
        """The change of these rows of the ablation table."""
        return cls(names, tuple((field, getattr(_CHANGES[name], field)) for name in names for field in _CHANGES[name].changed()))

    @property
    def name(self) -> str:
        """The name in a table."""
        return " + ".join(self.names)

    def timing(self, base: TimingParameters = DEFAULT_TIMING) -> TimingParameters:
        """The timing parameters ``base`` with this change."""
        return replace(base, **dict(self.fields))


def overall(score: AblationScore) -> float:
    """Mean of the mean errors of the classes: adapters on, adapters off, small kernels and cascade."""
    return (score.on.mean + score.off.mean + score.small_mean) / 3


def is_undecided(score: AblationScore, full: AblationScore) -> bool:
    """Whether public data leave a change standing: its errors are within the bound, and so are the beats, which the model has exactly."""
    return overall(score) <= BOUND * overall(full) and score.axi0_read == full.axi0_read


def _pairs(names: Sequence[str]) -> Iterator[Change]:
    """Two changes together, if they do not set one parameter twice."""
    for pair in combinations(names, 2):
        change = Change.of(*pair)
        if len({field for field, _ in change.fields}) == len(change.fields):
            yield change


def undecided() -> tuple[Change, ...]:
    """The changes that public data cannot exclude, and the pairs of them that it cannot exclude either."""
    return (*map(Change.of, NAMES), *(pair for pair in _pairs(NAMES) if pair.names not in EXCLUDED))


def score_of(change: Change) -> AblationScore:
    """All measured runs replayed with a change."""
    return ablate(change.name, change.timing(), points(), whole_runs())


def main() -> None:
    """Measure and print every change of both tables and every pair of those that stand, and which stand."""
    full = ablate("full model", DEFAULT_TIMING, points(), whole_runs())
    alone = [score_of(Change.of(name)) for name in _CHANGES if name != "full model"]
    names = [score.name for score in alone if is_undecided(score, full)]
    pairs = [score_of(change) for change in _pairs(names)]
    rows = tuple(
        (s.name, share(overall(s)), percent(s.axi0_read), "yes" if is_undecided(s, full) else "no") for s in (full, *alone, *pairs)
    )
    print(Table("Changes of the model", ("changed", "mean of all classes", "AXI0 reads, worst", "stands"), rows).markdown())  # noqa: T201  # this script exists to print it


if __name__ == "__main__":
    main()
