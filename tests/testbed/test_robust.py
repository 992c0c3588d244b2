"""Verdicts that hold: the changes of the model that public data cannot exclude, and what becomes of an answer under them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from test_compare import PERFORMANCE, SIZE, point, vela

from npu_model.timing import DEFAULT_TIMING, TimingParameters
from testbed.compare.comparison import Answer, arenas_below, compare
from testbed.compare.report import comparison_json, comparison_text
from testbed.compare.robust import _holding, judged
from testbed.compare.summary import summary_table
from testbed.compare.verdicts import SLOWEST
from validation.fvp.ablation import AblationScore
from validation.fvp.undecided import NAMES, Change, is_undecided, score_of, undecided

ONE, TWO, BOTH = Change.of(NAMES[0]), Change.of(NAMES[1]), Change.of(*NAMES[:2])


@cache
def full() -> AblationScore:
    return score_of(Change((), ()))


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        (Change.of("weights dealt in proportion, 8 a cycle"), True),
        (Change.of("IFM reads of 64 bytes, not 32", "reads and writes with a cap each"), True),
        (Change.of("no drain at a SHRAM reconfiguration"), False),
        (Change.of("IFM kept in one buffer, not two"), False),
    ],
    ids=lambda value: value.name if isinstance(value, Change) else str(value),
)
def test_a_change_stands_if_its_errors_are_within_half_again_the_models_and_its_beats_are_exact(change: Change, stands: bool) -> None:  # noqa: FBT001  # a parameter
    """The largest of those that stand is 1.47 times the model's, the least that does not 1.53 times."""
    assert is_undecided(score_of(change), full()) == stands
    assert (change in undecided()) == stands


def test_the_changes_are_the_rows_of_the_ablation_and_all_pairs_of_them() -> None:
    changes = undecided()
    assert len(changes) == len(NAMES) + len(NAMES) * (len(NAMES) - 1) // 2 == 78
    assert all(change.timing() != DEFAULT_TIMING for change in changes)
    assert BOTH.timing(TimingParameters(grant=3)).grant == 3


def answer(condition: str, cycles: int) -> Answer:
    return Answer(condition, PERFORMANCE if "Performance" in condition else SIZE, point(90, cycles))


def test_a_win_in_cycles_holds_if_ours_is_faster_under_every_change() -> None:
    win = answer("at Vela Performance's bytes or fewer", 270)
    found = judged(win, (ONE, TWO, BOTH), (280, 290, 300), (300, 300, 301))
    assert (found.ratio, found.low, found.high, found.verdict) == (0.9, 0.9, 300 / 301, "holds")


def test_a_win_depends_on_the_change_that_it_is_worst_under_one_alone_before_two_together() -> None:
    win = answer("at Vela Performance's bytes or fewer", 270)
    found = judged(win, (ONE, TWO, BOTH), (301, 302, 400), (300, 300, 300))
    assert found.against == (TWO.name, ONE.name, BOTH.name)
    assert found.verdict == f"depends on: {TWO.name}"


def test_a_win_in_bytes_stands_as_long_as_ours_is_no_slower() -> None:
    win = answer("at Vela Size's cycles or fewer", 500)
    assert judged(win, (ONE,), (505,), (500,)).verdict == "holds"
    assert judged(win, (ONE,), (506,), (500,)).verdict == f"depends on: {ONE.name}"


def test_bytes_that_depend_on_a_change_hold_in_the_next_larger_arena_that_does_not_and_is_below_velas() -> None:
    win, points = answer("at Vela Size's cycles or fewer", 500), (point(90, 500), point(94, 499), point(98, 490), point(100, 400))
    ours = {94: (506,), 98: (505,), 100: (1,)}
    assert _holding(points, win, SLOWEST, (500,), lambda one: ours[one.memory]) == 98
    assert _holding(points[:2], win, SLOWEST, (500,), lambda one: ours[one.memory]) is None
    found = replace(judged(win, (ONE,), (506,), (500,)), holds_at=98)
    assert found.holds
    assert found.verdict == f"depends on: {ONE.name}; holds at 98 bytes"


def test_ours_is_asked_for_the_largest_arena_below_velas_where_one_can_be_reached() -> None:
    assert arenas_below((vela("Size", 1600, 500), vela("Performance", 2400, 400)), 1584) == (2384,)
    assert arenas_below((vela("Size", 1616, 500),), 1584) == (1600,)


@pytest.mark.parametrize(("condition", "cycles"), [("smallest", 600), ("at Vela Performance's bytes or fewer", 300)])
def test_nothing_is_claimed_of_the_cycles_of_the_smallest_or_of_one_that_is_no_faster(condition: str, cycles: int) -> None:
    assert judged(answer(condition, cycles), (ONE,), (900,), (300,)).verdict == "-"


def test_a_comparison_says_ranges_verdicts_and_the_changes_that_were_tried() -> None:
    made = compare("zoo:tiny_conv", rungs=2, sweep=0, processes=1, robust=True)
    document = comparison_json(made)
    assert len(document["robust"]["changes"]) == 78
    for one, robust in zip(document["answers"], document["robust"]["answers"], strict=True):
        assert robust is None or robust["low"] <= one["cycles_ratio"] <= robust["high"]
    printed = " ".join(comparison_text(made).split())
    assert "under 78 changes of the timing model" in printed
    assert "; ".join(NAMES) in printed
    assert any("Wins in bytes at Vela Size's cycles: " in note for note in summary_table((made,)).notes)
    assert "robust" not in comparison_json(replace(made, robust=None))
