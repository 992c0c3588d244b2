"""The outcomes of ``npu-testbed validate``: the simulator compared with each peer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, to_builtins

from npu_model.timing import TimingParameters
from npu_testbed.comparisons.beside_vela import BesideVela
from npu_testbed.devices.timing import timing_json, timing_text
from npu_testbed.documents.comparison import ValidateVelaDocument, VelaScoreEntry
from npu_testbed.documents.document import Document, extended
from npu_testbed.documents.fvp import ValidateFvpDocument, ValidateFvpLiveDocument
from npu_testbed.documents.portfolio import ValidatePortfolioDocument, ValidatePortfolioListDocument
from npu_testbed.documents.validation import LitertScoreEntry, ValidateAllDocument, ValidateLitertDocument
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.portfolio.tables import tables
from npu_testbed.portfolio.verdict import Report
from npu_testbed.proofs.peers import LitertScore, litert_table
from npu_testbed.proofs.suite import BLIND, Suite, suite_table
from validation.fvp.bars import Scorecard
from validation.fvp.live import live
from validation.fvp.scorecard import to_json
from validation.fvp.scores import CLAIM
from validation.fvp.tables import score_tables
from validation.layout import grid
from validation.portfolio import PortfolioNetwork
from validation.tables import Table
from validation.vela import replays


def _text(found: Sequence[Table]) -> str:
    return "\n\n".join(table.text() for table in found)


class FvpOutcome(Outcome, frozen=True):
    """The scorecard of the FVPs' recorded counters, under timing parameters."""

    scorecard: Scorecard
    timing: TimingParameters

    @property
    def passed(self) -> bool:
        """Whether no bar is missed, except those known to be."""
        return self.scorecard.passed

    def document(self) -> ValidateFvpDocument:
        """Each point and each bar."""
        return extended(ValidateFvpDocument, self, **to_json(self.scorecard) | {"timing": timing_json(self.timing)})

    def text(self) -> str:
        """The tables of points and bars."""
        changed = [f"Timing: {timing_text(self.timing)}"] if self.timing.changed() else []
        return "\n\n".join([*changed, _text(score_tables(self.scorecard))])


class FvpLiveOutcome(Outcome, frozen=True):
    """A network on an installed FVP, and its replay."""

    result: live.LiveResult
    timing: TimingParameters

    def document(self) -> ValidateFvpLiveDocument:
        """The counters, and each operation."""
        operations = [to_builtins(row) | {"error": row.error} for row in self.result.operations]
        return extended(ValidateFvpLiveDocument, self.result, claim=CLAIM, operations=operations, timing=timing_json(self.timing))

    def text(self) -> str:
        """The counters, and each operation."""
        return _text(live.render(self.result))


class ValidateVelaOutcome(Outcome, frozen=True):
    """Vela's schedules compared with Vela's own figures, and ours with Vela's if requested; ``notes`` are printed below the scores."""

    result: BesideVela
    notes: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether every score has a reason, no bar is missed and no network failed."""
        return self.result.passed

    def document(self) -> ValidateVelaDocument:
        """Each schedule with its score, and the comparisons if requested."""
        scores = tuple(extended(VelaScoreEntry, score, verdict=score.verdict.name) for score in self.result.scores)
        comparisons = tuple(summary.to_json() for summary in self.result.summaries) or UNSET
        failures = self.result.failures if comparisons else UNSET
        return extended(ValidateVelaDocument, self.result, networks=scores, comparisons=comparisons, failures=failures)

    def text(self) -> str:
        """The scores, and a table for each comparison."""
        notes = [*self.notes, *(failure.sentence for failure in self.result.failures)]
        scores = "\n".join([*(table.text() for table in replays.render(self.result.scores)), *notes])
        return "\n\n".join([scores, *(table.text() for summary in self.result.summaries for table in summary.tables())])


class LitertOutcome(Outcome, frozen=True):
    """Outputs of Vela's schedules and of LiteRT."""

    scores: tuple[LitertScore, ...]

    @property
    def passed(self) -> bool:
        """Whether each byte that differs has a reason."""
        return all(score.passed for score in self.scores)

    def document(self) -> ValidateLitertDocument:
        """Each schedule with its score."""
        rows = (extended(LitertScoreEntry, score, verdict=score.verdict.name) for score in self.scores)
        return ValidateLitertDocument(self.passed, tuple(rows))

    def text(self) -> str:
        """A row for each schedule."""
        return litert_table(self.scores).text()


class PortfolioOutcome(Outcome, frozen=True):
    """Our schedules and Vela's on networks of the portfolio."""

    report: Report

    @property
    def passed(self) -> bool:
        """Whether each network passes."""
        return self.report.passed

    def document(self) -> Document:
        """Each network with its verdict."""
        return extended(ValidatePortfolioDocument, self.report)

    def text(self) -> str:
        """A row for each network, and the known facts about networks that do not pass."""
        return _text(tables(self.report))


class PortfolioListOutcome(Outcome, frozen=True):
    """The networks that ``validate portfolio`` would examine."""

    networks: tuple[PortfolioNetwork, ...]

    def document(self) -> ValidatePortfolioListDocument:
        """Each network."""
        return extended(ValidatePortfolioListDocument, self)

    def text(self) -> str:
        """A row for each network."""
        rows = [(one.name, one.group, one.precision, "*" if one.sampled else "", one.idiom) for one in self.networks]
        return grid(("network", "group", "precision", "sample", "stands for"), rows, (True,) * 5)


class SuiteOutcome(Outcome, frozen=True):
    """The scorecard of all peers."""

    suite: Suite

    @property
    def passed(self) -> bool:
        """Whether no bar is missed, except those known to be."""
        return self.suite.passed

    def document(self) -> Document:
        """Each bar of each peer."""
        return extended(ValidateAllDocument, self.suite, blind=BLIND)

    def text(self) -> str:
        """A row for each bar."""
        return suite_table(self.suite).text()
