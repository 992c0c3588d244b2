"""Networks that support each rule of the timing model: without the rule, their error grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from npu_model.timing import DEFAULT_TIMING, TimingParameters
from validation.fvp.ablation import ABLATIONS
from validation.fvp.references.records import points, u65_points, whole_runs
from validation.fvp.scorecard import quick_score_point, score_whole_run
from validation.fvp.scores import mean_error
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
        errors.setdefault(point.network, []).append(quick_score_point(point, timing).error)
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
