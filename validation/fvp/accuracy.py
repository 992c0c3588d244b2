"""The page ``docs/accuracy.md``: how far the timing model agrees with the published FVP counters.

python -m validation.fvp.accuracy > docs/accuracy.md

A network supports a rule of the timing model if its error grows without the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.ablation import ABLATIONS
from validation.fvp.bars import Scorecard
from validation.fvp.left_out import all_left_out, deep_left_out, table
from validation.fvp.references.records import points, u65_points, whole_runs
from validation.fvp.scorecard import score_point, score_whole_run, scorecard
from validation.fvp.scores import CLAIM, mean_error
from validation.fvp.tables import score_tables
from validation.fvp.u65_rules import RULES, RuleScore, without
from validation.fvp.u85_rules import without_each
from validation.tables import Table

NOTICEABLE = 0.001
"""Growth of a network's mean absolute error that counts as support for a rule: a tenth of a percentage point."""

FEWER_POINTS = 0.003
"""The same for the U65 and the U85, whose networks have fewer points."""

_NOTE = (
    "A network bears a rule if its mean absolute error grows by 0.1 points or more without the rule (U65 and U85: by 0.3 points). It "
    "speaks against the rule if the error shrinks by that much. U55: adapters on and off, all configurations; tinycnn is the class of "
    "small kernels. The networks are independent; the accelerators and adapters of one network are not. A rule that one network bears is "
    "a fit. A rule that no network bears is kept because documents, beats or silicon ask for it (docs/decisions/0003-timing-model.md)."
)


class Bearers(Struct, frozen=True):
    """A rule (its change in the model), the networks that support it, and the networks that contradict it."""

    name: str
    bear: tuple[str, ...]
    against: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The number of independent supporting networks in words. A rule with one network is a fit."""
        return ("none", "a fit")[len(self.bear)] if len(self.bear) < 2 else f"{len(self.bear)} networks"


def network_errors(timing: TimingParameters) -> dict[str, float]:
    """Mean absolute error of each network on the U55, and of the small kernels."""
    errors: dict[str, list[float]] = {}
    for point in points():
        errors.setdefault(point.network, []).append(score_point(point, timing).error)
    errors["tinycnn"] = [score_whole_run(run, timing).error for run in whole_runs()]
    return {network: mean_error(found) for network, found in errors.items()}


def _bearers(name: str, full: Mapping[str, float], less: Mapping[str, float], noticeable: float) -> Bearers:
    """The networks whose error grows without a rule, and those whose error shrinks."""
    bear = tuple(network for network in full if less[network] - full[network] >= noticeable)
    against = tuple(network for network in full if full[network] - less[network] >= noticeable)
    return Bearers(name, bear, against)


def u55_bearers(changes: Sequence[tuple[str, TimingParameters]] = ABLATIONS[1:]) -> tuple[Bearers, ...]:
    """Every ablation, or some ``changes``, network by network."""
    full = network_errors(DEFAULT_TIMING)
    return tuple(_bearers(name, full, network_errors(timing), NOTICEABLE) for name, timing in changes)


def _named(family: str, scores: Sequence[RuleScore]) -> tuple[Bearers, ...]:
    full = scores[0].by_network
    return tuple(_bearers(f"{family}: {score.name}", full, score.by_network, FEWER_POINTS) for score in scores[1:])


def u65_bearers() -> tuple[Bearers, ...]:
    """Every rule of the U65 alone."""
    return _named("U65", [without(name, access, DEFAULT_TIMING, u65_points()) for name, access in RULES])


def u85_bearers() -> tuple[Bearers, ...]:
    """Every rule of the U85's time."""
    return _named("U85", without_each())


def bearers_table(rows: Sequence[Bearers]) -> Table:
    """The rules, and the networks that support them."""
    cells = tuple((row.name, row.verdict, ", ".join(row.bear), ", ".join(row.against)) for row in rows)
    return Table("Networks that bear each rule", ("changed", "borne by", "networks", "against"), cells, (_NOTE,))


_HEAD = f"""# Accuracy of the timing model

**{CLAIM}** The reference is the Corstone FVP, Arm's own model of the NPU,
which is cycle-approximate itself. Counters of one chip of silicon are public too. They decided nothing on this page, and
[PMU events](pmu.md) compares them with ours.

`python -m validation.fvp.accuracy > docs/accuracy.md` writes this page, and a test compares it with today's model.
`npu-testbed validate fvp` prints the same figures. The package holds the published counters, each with its source, and the
measured command streams as decoded operations. The decoder's work is kept instead of the weights.

The project Kwon-GiHwan/mps4_prototyping_board published the figures (commit c5450807): three networks, four MAC
configurations, timing adapters on (Corstone-300, profile `u55_high_end`) and off (Corstone-310). All networks have 8 bits.
Networks with 16 bits, look-up tables or transposed convolutions have no public cycle counts, so their accuracy is unproven.
The cycles of layers and stalls are not public either. The beats of each port show whether totals hide errors that cancel.

Other classes are the time of whole runs of small kernels, with the only public measurement of a cascade; inferences on an
Ethos-U65; inferences on an Ethos-U85; and streams of older Velas.

A few constants were chosen with these points in view, so the errors are those of a calibration set, not of a blind test.
`docs/decisions/0003-timing-model.md` names the constants and what each is worth. No program fitted them. Operators that no
measured network has are compared with Vela's estimate (`tests/sim/test_unit_cycles.py`), which is not a measurement.
"""

_TRIED = """## Readings that the points do not decide

Other readings of two U55 rules, tried on 2026-11-28: the adapter's cap, and the unit that BLOCKDEP counts. The table shows
mean and worst errors of NPU ACTIVE. The sweeps are the ten of the U55.

| reading | on | worst | off | worst | sweeps | worst | Ethos-U65 |
| --- | --: | --: | --: | --: | --: | --: | --: |
| the model: a sliding cap, BLOCKDEP in blocks | 0.46 % | -1.06 % | 0.59 % | -1.45 % | 0.49 % | +1.68 % | 1.44 % |
| cap counted anew with each period | 0.58 % | -1.30 % | 0.59 % | -1.45 % | 0.56 % | -1.33 % | 1.59 % |
| a period begins with the first word after the last period | 0.65 % | -1.30 % | 0.59 % | -1.45 % | 0.56 % | -1.33 % | 1.57 % |
| a bucket of the cap's words, filled at the cap's pace | 2.88 % | +8.41 % | 0.59 % | -1.45 % | 5.26 % | +26.81 % | 1.93 % |
| the same, an eighth as deep | 3.70 % | +10.73 % | 0.59 % | -1.45 % | 5.45 % | +27.37 % | 1.69 % |
| BLOCKDEP in steps: sub-kernels and IFM depths | 0.45 % | -1.06 % | 0.59 % | -1.45 % | 0.45 % | +1.68 % | 1.45 % |
| BLOCKDEP for a kernel's first block alone | 0.37 % | -1.05 % | 0.63 % | -1.45 % | 0.48 % | +1.68 % | 1.65 % |

The sliding cap has the least mean error on the points and on the sweeps. KWS and YOLO choose it when the periods are the
other choice; RNNoise alone denies the buckets. No reading of BLOCKDEP is decided: with each network left out in turn, the
choice between the three errs by 0.52 %, and so does the model without a choice. So both rules stay as they are.
"""


def accuracy_page(card: Scorecard) -> str:
    """The page as Markdown from a finished scorecard, without the last two tables."""
    return "\n".join([_HEAD, *(table.markdown() for table in score_tables(card))])


def main() -> None:
    """Replay the references and print the page; the last two tables take three minutes."""
    borne = bearers_table((*u55_bearers(), *u65_bearers(), *u85_bearers())).markdown()
    print("\n".join([accuracy_page(scorecard()), borne, _TRIED, table((*all_left_out(), *deep_left_out())).markdown()]), end="")  # noqa: T201  # this script exists to print the page


if __name__ == "__main__":
    main()
