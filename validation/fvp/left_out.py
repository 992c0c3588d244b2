"""Errors on networks that took no part in the choice of the model's rules: each network is left out, and the others choose the rules.

The candidates are the current rules, and the rules with one change: the rows of the ablation tables. For the Ethos-U85, the others choose
every constant that is not a fact of the hardware. Run as ``python -m validation.fvp.left_out > validation/fvp/left_out.csv``; some two
minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.timing import DEFAULT_TIMING
from validation.fvp.ablation import ABLATIONS, CANDIDATES
from validation.fvp.left_out_errors import HEADERS, LeftOut
from validation.fvp.references.records import points, u65_points, u85_points
from validation.fvp.scores import mean_error, worst_error
from validation.fvp.u65_rules import RULES, SHARED, RuleScore, without
from validation.fvp.u85_rules import refitted
from validation.tables import Table, share

_PLACES = 4


def _chosen(scores: Sequence[RuleScore], network: str) -> RuleScore:
    """The rules with the least mean error over all networks but one; in a tie, the first."""
    others = [name for name in dict.fromkeys(point.network for point in scores[0].points) if name != network]
    return min(scores, key=lambda score: mean_error([error for name in others for error in score.of(network=name)]))


def folds(scores: Sequence[RuleScore]) -> tuple[tuple[str, RuleScore], ...]:
    """Each network and the rules that the others choose."""
    return tuple((name, _chosen(scores, name)) for name in dict.fromkeys(point.network for point in scores[0].points))


def left_out(family: str, scores: Sequence[RuleScore]) -> tuple[LeftOut, ...]:
    """The errors of every network with the rules that the others choose, adapters on and off."""
    return _rows(family, folds(scores))


def _rows(family: str, found: Sequence[tuple[str, RuleScore]]) -> tuple[LeftOut, ...]:
    """The rows of a family, each with the rules that were chosen without its network."""
    made = []
    for adapters in (True, False):
        errors = [(error, name) for name, score in found for error in score.of(network=name, adapters=adapters)]
        if not errors:
            continue
        worst = worst_error(error for error, _ in errors)
        at = next(name for error, name in errors if error == worst)
        made.append(LeftOut(family, adapters, round(mean_error(error for error, _ in errors), _PLACES), round(abs(worst), _PLACES), at))
    return tuple(made)


def deep_left_out() -> tuple[LeftOut, ...]:
    """The Ethos-U85, measured now. The other networks choose every constant that is not a fact of the hardware."""
    score = refitted(u85_points())
    return _rows("ethos-u85", [(name, score) for name in dict.fromkeys(point.network for point in score.points)])


def all_left_out() -> tuple[LeftOut, ...]:
    """The Ethos-U55 and U65, measured now."""
    u55 = [without(name, {}, timing, points()) for name, timing in (*ABLATIONS, *CANDIDATES)]
    u65 = [without(name, access, DEFAULT_TIMING, u65_points()) for name, access in RULES]
    u65 += [without(name, {}, timing, u65_points()) for name, timing in SHARED]
    return (*left_out("ethos-u55", u55), *left_out("ethos-u65", u65))


def table(rows: Sequence[LeftOut]) -> Table:
    """The errors for the accuracy page."""
    cells = tuple((row.family, "on" if row.adapters else "off", share(row.mean), share(row.worst), row.network) for row in rows)
    note = (
        "Each network is left out in turn. The other networks choose between the rules and each single change in the ablation tables. "
        "The error is that of the network left out. For the Ethos-U85 the other networks choose every constant that documents leave open. "
        "So the table says how far a network may be off that nobody has measured."
    )
    return Table("Networks left out", ("family", "adapters", "mean error", "worst", "worst network"), cells, (note,))


def main() -> None:
    """Measure and print the file."""
    rows = [
        (r.family, "on" if r.adapters else "off", f"{r.mean:.4f}", f"{r.worst:.4f}", r.network) for r in (*all_left_out(), *deep_left_out())
    ]
    print("\n".join(map(",".join, (HEADERS, *rows))))  # noqa: T201  # this script exists to print the file


if __name__ == "__main__":
    main()
