"""Scorecards against the FVP of which tests show the documents, made once in a process."""

from __future__ import annotations

from functools import cache

import pytest

import npu_testbed.proofs.suite
import validation.fvp.scorecard
from validation.fvp.bars import Scorecard
from validation.fvp.references.records import points, single_operators, sweeps, u65_points, whole_runs
from validation.fvp.scorecard import (
    score_operator,
    score_point,
    score_sweep,
    score_whole_run,
)


@cache
def small_card() -> Scorecard:
    """One measurement of each kind: every key of a document, in a tenth of the time of all of them."""
    single, short = single_operators()[0], next(point for point in points() if point.network == "rnnoise_INT8")
    return Scorecard(
        points=(score_point(short),),
        whole_runs=(score_whole_run(whole_runs()[0]),),
        u65=(score_point(u65_points()[0]),),
        sweeps=(score_sweep(sweeps()[0]),),
        operators=(score_operator(single),),
    )


def show(monkeypatch: pytest.MonkeyPatch, card: Scorecard) -> None:
    """Have ``validate fvp`` and ``validate all`` show a card."""
    for module in (validation.fvp.scorecard, npu_testbed.proofs.suite):
        monkeypatch.setattr(module, "scorecard", lambda *_: card)
