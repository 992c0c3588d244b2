"""The climb: what a judge says decides, not what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from cascader.draft.climb import climb as climbing
from cascader.draft.climb import climbed
from cascader.draft.draft import Draft
from cascader.draft.drafter import HOPE, regroupings
from cascader.draft.group_moves import Groups
from cascader.plan.depth_first import Group

ROWS = 40
EXPECTED = 10_000


class _Striped(Struct, frozen=True):
    """In place of a draft: one group of so many stripe rows."""

    part_groups: Groups
    cycles: int


def striped(rows: int, cycles: int = EXPECTED) -> Draft:
    return cast(Draft, _Striped((Group(0, 1, rows),), cycles))


def beside(groups: Groups) -> Iterable[Groups]:
    rows = groups[0].stripe_rows
    return [(Group(0, 1, other),) for other in (rows - 1, rows + 1) if 1 <= other <= ROWS]


class _Judge:
    """Takes stripes of 30 rows for the fastest, and counts what it is asked."""

    def __init__(self, ahead: int = 1) -> None:
        self.asked: list[int] = []
        self.drawn: list[int] = []
        self._ahead = ahead

    def __call__(self, drafts: Iterable[Draft]) -> Iterator[int]:
        drafts = iter(drafts)
        while some := [draft.part_groups[0].stripe_rows for draft in islice(drafts, self._ahead)]:
            self.drawn += some
            for rows in some:
                self.asked.append(rows)
                yield 1000 + abs(rows - 30)


def climb(judge: _Judge, *, target: int = 0, most: int = 100, expected: int = EXPECTED) -> int:
    start = striped(20)
    moves = regroupings(start.part_groups, beside, lambda groups, _: striped(groups[0].stripe_rows, expected))
    return climbed(start, 1010, moves, judge, most, target)[0].part_groups[0].stripe_rows


def test_a_climb_ends_where_no_change_helps() -> None:
    judge = _Judge()
    assert climb(judge) == 30
    assert len(judge.asked) == len(set(judge.asked))


def test_a_judge_that_draws_ahead_is_asked_for_the_same_changes() -> None:
    """Changes that are drawn before one that helps are dropped, and may be tried again beside that one."""
    moves = regroupings(
        striped(20).part_groups,
        lambda groups: [(Group(0, 1, groups[0].stripe_rows + step),) for step in (1, 2, 3, 0, -1)],
        lambda groups, _: None if groups[0].stripe_rows % 4 == 2 else striped(groups[0].stripe_rows),
    )
    alone, ahead = _Judge(), _Judge(ahead=4)
    ends = [climbed(striped(20), 1010, moves, judge, 15)[0].part_groups for judge in (alone, ahead)]
    assert ends[0] == ends[1]
    assert alone.asked == ahead.asked == alone.drawn
    assert len(ahead.drawn) > len(ahead.asked)


def test_a_climb_ends_at_its_target_or_with_its_last_judgement() -> None:
    assert climb(_Judge(), target=1005) == 25
    judge = _Judge()
    assert climb(judge, most=3) == 22
    assert len(judge.asked) == 3


def test_a_change_that_is_expected_to_be_much_slower_is_not_judged() -> None:
    judge = _Judge()
    assert climb(judge, expected=int(EXPECTED * (1 + HOPE)) + 1) == 20
    assert judge.asked == []


def test_groups_that_do_not_fit_are_left() -> None:
    start = striped(20)
    moves = regroupings(
        start.part_groups, beside, lambda groups, _: None if groups[0].stripe_rows == 25 else striped(groups[0].stripe_rows)
    )
    assert climbed(start, 1010, moves, _Judge(), 100)[0].part_groups[0].stripe_rows == 24


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 11), st.integers(0, 40))
def test_a_climb_tells_of_the_best_after_each_change_and_ends_at_no_better_neighbour(costs: list[int], at: int, most: int) -> None:
    """Steps to either side over a row of costs."""
    begin = at % len(costs)

    def moves(best: int, _judged: Sequence[int]) -> Iterator[tuple[int, int]]:
        return ((number, number) for number in (best - 1, best + 1) if 0 <= number < len(costs))

    def judge(some: Iterable[int]) -> Iterator[int]:
        return (costs[number] for number in some)

    seen = list(climbing(begin, costs[begin], moves, judge))
    assert [cycles for _, cycles in seen] == sorted((costs[best] for best, _ in seen), reverse=True)
    end = seen[-1][0] if seen else begin
    assert costs[end] == min(costs[max(0, end - 1) : end + 2])
    assert climbed(begin, costs[begin], moves, judge, most, target=-1) == [(begin, costs[begin]), *seen][min(most, len(seen))]
