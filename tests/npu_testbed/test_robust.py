"""Verdicts that hold: the changes of the model that public data cannot exclude, and what becomes of an answer under them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
from asked_for import compare
from msgspec.structs import replace
from small_programs import IDEAL
from test_compare import PERFORMANCE, SIZE, frontier, point, vela

from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.comparisons import robust as robust_module
from npu_testbed.comparisons.answer import SLOWEST, BestAnswer
from npu_testbed.comparisons.comparison import arenas_below
from npu_testbed.comparisons.comparison_tables import comparison_text
from npu_testbed.comparisons.robust import _holding, judged, robust_answers, tied
from npu_testbed.comparisons.summary import summary_table
from npu_testbed.outcomes.comparison import ComparisonOutcome
from npu_testbed.replays.vela_runs import VelaTask
from npu_testbed.searches.frontiers import FrontierPoint
from validation.fvp.ablation import AblationScore
from validation.fvp.undecided import EXCLUDED, NAMES, Change, is_undecided, score_of, undecided

ONE, TWO, BOTH = Change.of(NAMES[0]), Change.of(NAMES[1]), Change.of(*NAMES[:2])


@cache
def full() -> AblationScore:
    return score_of(Change((), ()))


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        (Change.of("weights dealt in proportion, 8 a cycle"), True),
        (Change.of("weights of a step all at once", "reads and writes with a cap each"), True),
        (Change.of("IFM reads of 64 bytes, not 32", "reads and writes with a cap each"), False),
        (Change.of("no drain at a SHRAM reconfiguration"), False),
        (Change.of("IFM kept in one buffer, not two"), False),
    ],
    ids=lambda value: value.name if isinstance(value, Change) else str(value),
)
def test_a_change_stands_if_its_errors_are_within_half_again_the_models_and_its_beats_are_exact(change: Change, stands: bool) -> None:  # noqa: FBT001  # a parameter
    """The largest of those that stand is 1.47 times the model's, the least of the pairs that do not 1.58 times."""
    assert is_undecided(score_of(change), full()) == stands
    assert (change in undecided()) == stands


def test_the_changes_are_the_rows_of_the_ablation_and_all_pairs_of_them_that_stand() -> None:
    changes = undecided()
    assert len(changes) == len(NAMES) + len(NAMES) * (len(NAMES) - 1) // 2 - len(EXCLUDED) == 89
    assert {change.names for change in changes}.isdisjoint(EXCLUDED)
    assert all(change.timing() != DEFAULT_TIMING for change in changes)
    assert BOTH.timing(TimingParameters(grant=3)).grant == 3


def answer(condition: str, cycles: int) -> BestAnswer:
    return BestAnswer(condition, PERFORMANCE if "Performance" in condition else SIZE, point(90, cycles))


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


def test_what_may_stand_in_an_answers_place_keeps_its_condition_and_is_a_per_cent_behind_at_most() -> None:
    points = point(90, 500), point(150, 300), point(190, 270)
    near = point(90, 510), point(91, 499), point(180, 272), point(190, 272), point(200, 274)
    ours = replace(frontier(*points), near=near)
    cycles, in_bytes = (BestAnswer(one, v, p) for one, v, p in (("at Vela Performance's bytes or fewer", PERFORMANCE, points[2]),
                                                            ("at Vela Size's cycles or fewer", SIZE, points[0])))  # fmt: skip
    assert tied(ours, cycles) == (near[2], near[3])
    assert tied(ours, in_bytes) == ()
    assert tied(replace(ours, near=(*near, point(90, 500))), in_bytes) == (point(90, 500),)


def named(memory: int, cycles: int) -> FrontierPoint:
    """A point whose schedule is not that of others."""
    made = point(memory, cycles)
    return replace(made, schedule=replace(made.schedule, provenance=replace(made.schedule.provenance, model=str(cycles))))


def test_of_schedules_within_a_per_cent_the_one_whose_win_holds_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest takes more cycles than Vela under a change, the next one too, the third does not."""
    points, near = (named(90, 500), named(190, 270)), (named(180, 271), named(182, 272))
    under = {"270": 310, "271": 305, "272": 299}
    monkeypatch.setattr(robust_module, "our_cycles", lambda schedule, *_: (under[schedule.provenance.model],))
    monkeypatch.setattr(robust_module, "vela_cycles", lambda *_: (300,))
    monkeypatch.setattr(robust_module, "undecided", lambda: (ONE,))
    win = BestAnswer("at Vela Performance's bytes or fewer", PERFORMANCE, points[1])
    vela = VelaTask(b"", "ethos-u55-128", "", "", None, IDEAL)
    with ThreadPoolExecutor(1) as executor:
        ((chosen, verdict),) = robust_answers((win,), replace(frontier(*points), near=near), vela, executor)
        ((kept, lost),) = robust_answers((win,), replace(frontier(*points), near=near[:1]), vela, executor)
    assert (chosen.ours, verdict and verdict.instead_of) == (near[1], points[1])
    assert verdict is not None
    assert verdict.holds
    assert verdict.verdict == "holds; the best, 270 cycles in 190 bytes, does not"
    assert (kept, lost and lost.verdict) == (win, f"depends on: {ONE.name}")


@pytest.mark.parametrize(("condition", "cycles"), [("smallest", 600), ("at Vela Performance's bytes or fewer", 300)])
def test_nothing_is_claimed_of_the_cycles_of_the_smallest_or_of_one_that_is_no_faster(condition: str, cycles: int) -> None:
    assert judged(answer(condition, cycles), (ONE,), (900,), (300,)).verdict == "-"


def test_a_comparison_says_ranges_verdicts_and_the_changes_that_were_tried() -> None:
    made = compare("zoo:tiny_conv", rungs=2, sweep=0, processes=1, robust=True)
    (document,) = ComparisonOutcome((made,)).to_dict()["networks"]
    assert len(document["robust"]["changes"]) == 89
    for one, robust in zip(document["answers"], document["robust"]["answers"], strict=True):
        assert robust is None or robust["low"] <= one["cycles_ratio"] <= robust["high"]
    printed = " ".join(comparison_text(made).split())
    assert "under 89 changes of the timing model" in printed
    assert "; ".join(NAMES) in printed
    assert any("Wins in bytes at Vela Size's cycles: " in note for note in summary_table((made,)).notes)
    assert "robust" not in ComparisonOutcome((replace(made, robust=None),)).to_dict()["networks"][0]
