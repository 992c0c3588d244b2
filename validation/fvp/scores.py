"""The rows of the FVP scorecard and the figures drawn from them: errors, means, shares, verdicts. Pure values."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from validation.fvp.references.records import ReferencePoint, SingleOperator, Sweep, WholeRun

CLAIM = "Agreement with Arm's simulator, not silicon."

TOTAL_GRID = 1000
"""NPU TOTAL on the FVP sits on a grid of 1000 cycles, each network with an offset of its own (published measurements)."""

TOTAL_OVERHEAD = 15
"""Cycles that TOTAL counts beyond ACTIVE before it is rounded up: 15 to 61 fit every calibration point, the least is taken."""

IDLE = 501
"""Idle cycles in a whole run: published for one of them, and taken for the others."""

SHARES = (0.01, 0.02, 0.05)
"""Errors for which the summary tells the share of points within them."""


def relative(ours: int, theirs: int) -> float:
    """Relative error of ``ours``.

    >>> relative(98, 100)
    -0.02
    """
    return (ours - theirs) / theirs


class BeatScore(Struct, frozen=True, forbid_unknown_fields=True):
    """Data beats of one port and direction (``port`` by the name of Arm's PMU event), ours and the FVP's."""

    port: str
    ours: int
    fvp: int

    @property
    def error(self) -> float:
        """Relative error."""
        return relative(self.ours, self.fvp)


class PointScore(Struct, frozen=True):
    """One replayed inference: ``cycles`` is ours for NPU ACTIVE; ``beats`` is empty where the FVP's are not published."""

    point: ReferencePoint
    cycles: int
    beats: tuple[BeatScore, ...]

    @property
    def error(self) -> float:
        """Relative error of NPU ACTIVE."""
        return relative(self.cycles, self.point.active)

    @property
    def vela_error(self) -> float:
        """Relative error of Vela's own estimate."""
        return relative(self.point.vela_cycles, self.point.active)


class WholeRunScore(Struct, frozen=True):
    """One replay, and a run whose whole time was published: ``cycles`` is ours for NPU ACTIVE."""

    run: WholeRun
    cycles: int
    beats: tuple[BeatScore, ...]

    @property
    def active(self) -> int:
        """NPU ACTIVE as the published cycles have it: less those that were idle."""
        return self.run.total - IDLE

    @property
    def error(self) -> float:
        """Relative error of NPU ACTIVE."""
        return relative(self.cycles, self.active)


class SweepScore(Struct, frozen=True):
    """One replay under changed adapter settings; ``cycles`` is ours for NPU ACTIVE."""

    sweep: Sweep
    cycles: int

    @property
    def on_grid(self) -> int:
        """Our cycles as the FVP would print them as TOTAL: rounded up to the next point of the measurement's grid.

        On every calibration point TOTAL is ACTIVE plus :data:`TOTAL_OVERHEAD` rounded up in this way.
        """
        offset = self.sweep.total % TOTAL_GRID
        return -(-(self.cycles + TOTAL_OVERHEAD - offset) // TOTAL_GRID) * TOTAL_GRID + offset

    @property
    def error(self) -> float:
        """Relative error of NPU ACTIVE where it is known, else of the rounded cycles."""
        return relative(self.on_grid, self.sweep.total) if self.sweep.active is None else relative(self.cycles, self.sweep.active)

    @property
    def resolution(self) -> float:
        """One step of the grid relative to the measurement, below which no error can be seen; 0 where NPU ACTIVE is known."""
        return TOTAL_GRID / self.sweep.total if self.sweep.active is None else 0.0


class OperatorScore(Struct, frozen=True):
    """One operator replayed alone; ``mac_cycles`` counts its cycles in which the MAC array works."""

    operator: SingleOperator
    cycles: int
    mac_cycles: int

    @property
    def error(self) -> float:
        """Relative error against the expected cycles."""
        return relative(self.cycles, self.operator.cycles)


class ScoreSummary(Struct, frozen=True):
    """Errors over the points with the adapters on (or off): mean absolute and worst signed error, ours and Vela's.

    ``within`` is the share of points whose absolute error is at most each of :data:`SHARES`.
    """

    adapters: bool
    count: int
    mean: float
    worst: float
    vela_mean: float
    vela_worst: float
    within: tuple[float, ...]


class ScoreBar(Struct, frozen=True):
    """A bound that a figure must keep: ``value`` and ``limit`` are absolute relative errors over ``count`` cases.

    ``known`` is the reason why the bound is known to be missed, if it is.
    """

    what: str
    limit: float
    value: float
    count: int
    known: str = ""

    @property
    def passed(self) -> bool:
        """Whether there are cases and the figure keeps the bound."""
        return self.count > 0 and self.value <= self.limit

    @property
    def fails(self) -> bool:
        """Whether the bound is missed for a reason that is not known, or for want of a case."""
        return not self.passed and not (self.known and self.count)

    @property
    def verdict(self) -> str:
        """The verdict as a cell of a table."""
        return "passed" if self.passed else "MISSED" if self.fails else "MISSED, known"


def mean_error(errors: Iterable[float]) -> float:
    """Mean absolute error; 0 of nothing.

    >>> mean_error([-0.5, 0.25])
    0.375
    """
    values = [abs(error) for error in errors]
    return sum(values) / len(values) if values else 0.0


def worst_error(errors: Iterable[float]) -> float:
    """The error that is largest in size, with its sign; 0 of nothing.

    >>> worst_error([-0.5, 0.25])
    -0.5
    """
    return max(errors, key=abs, default=0.0)


def summarise(scores: Iterable[PointScore], *, adapters: bool) -> ScoreSummary:
    """The summary of the points with the adapters on or off."""
    chosen = [score for score in scores if score.point.adapters == adapters]
    errors = [score.error for score in chosen]
    vela = [score.vela_error for score in chosen]
    return ScoreSummary(
        adapters=adapters,
        count=len(chosen),
        mean=mean_error(errors),
        worst=worst_error(errors),
        vela_mean=mean_error(vela),
        vela_worst=worst_error(vela),
        within=tuple(sum(abs(error) <= limit for error in errors) / len(errors) if errors else 0.0 for limit in SHARES),
    )
