"""The smallest schedule within some cycles: few limits are searched, and none of a whole frontier is smaller."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from frontiers_found import frontier, task
from hypothesis import given
from hypothesis import strategies as st

from cascader.draft import drafter
from cascader.ethosu.search.as_fast import EVEN, NEAR, SURE, TOLD, FastSearch, smallest_as_fast
from cascader.ethosu.search.cycle_targets import MISSED
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.remote_calls import smallest, smallest_within
from cascader.ethosu.search.replays import WHOLE_EFFORT
from cascader.ethosu.search.search import explore
from cascader.ethosu.search.task import silent
from cascader.ethosu.verify.check import check_schedule
from cascader.search.workers import workers

ROOM, TARGET = 4096, 1000

Falling = dict[int, int]
"""Cycles of a form by the limits of its ladder: a larger one takes no more."""


class _Form:
    """A form's stand-in: its cycles are told."""

    def __init__(self, cycles: Falling) -> None:
        self.cycles = cycles


class _Told(FastSearch):
    """A search whose estimates are told, exact and the same after each change."""

    def __init__(self, forms: Sequence[Falling]) -> None:
        names = [_Form(cycles) for cycles in forms]
        explored = SimpleNamespace(forms=names, ladders=[tuple(cycles) for cycles in forms])
        nothing = cast("Any", None)
        super().__init__(nothing, cast("Any", explored), ROOM, TARGET, nothing, nothing)
        self.asked = 0

    def expected(self, some: Sequence[tuple[Form, int]], part: Fraction = Fraction(0)) -> list[int | None]:
        told = [_cycles(cast("Any", form).cycles, limit) for form, limit in some]
        self.asked += len({(*one, part) for one in some} - set(self._expected))
        self._expected.update({(*one, part): cycles for one, cycles in zip(some, told, strict=True)})
        return told

    def _search(self, some: Sequence[tuple[Form, int]]) -> None:
        made = [SimpleNamespace(memory=limit, cycles=_cycles(cast("Any", form).cycles, limit)) for form, limit in some]
        self.found += tuple(cast("Any", one) for one in made)


class _Drawn(NamedTuple):
    """A draft's stand-in."""

    memory: int
    cycles: int


class _Asked(_Told):
    """A search whose drafts are told; it notes the limits for which it asks for drafts."""

    def __init__(self, forms: Sequence[Falling]) -> None:
        super().__init__(forms)
        self.limits: list[int] = []
        self._show, self._executor = silent, cast("Any", SimpleNamespace(submit=self._told))

    _search = FastSearch._search

    def _told(self, _call: object, form: _Form, limit: int) -> Future[tuple[_Drawn, ...]]:
        self.limits.append(limit)
        answer: Future[tuple[_Drawn, ...]] = Future()
        answer.set_result(tuple(_Drawn(least, cycles) for least, cycles in form.cycles.items() if least <= limit))
        return answer

    def _replay(self, drafts: Sequence[Any]) -> None:
        self.found += tuple(cast("Any", SimpleNamespace(draft=one, memory=one.memory, cycles=one.cycles)) for one in drafts)


def _cycles(falling: Falling, limit: int) -> int | None:
    return min((cycles for least, cycles in falling.items() if least <= limit), default=None)


def _fallings() -> st.SearchStrategy[Falling]:
    sizes = st.lists(st.integers(1, ROOM // 16).map(lambda size: 16 * size), min_size=1, max_size=12, unique=True)
    many = st.lists(st.integers(500, 2000), min_size=12, max_size=12)
    return st.builds(lambda some, cycles: dict(zip(sorted(some), sorted(cycles, reverse=True), strict=False)), sizes, many)


@given(st.lists(_fallings(), min_size=1, max_size=4))
def test_bisection_finds_the_smallest_limit_that_surely_suffices(forms: list[Falling]) -> None:
    sure = [limit for cycles in forms for limit in cycles if _cycles(cycles, limit) <= SURE * TARGET]  # type: ignore[operator]  # all fit
    assert _Told(forms).least_sure() == min([*sure, ROOM])


@given(st.lists(_fallings(), min_size=1, max_size=4))
def test_the_gap_closes_at_the_smallest_arena_that_meets_the_target(forms: list[Falling]) -> None:
    search = _Told(forms)
    search.close_in()
    meeting = [limit for cycles in forms for limit in cycles if cycles[limit] <= TARGET]
    assert (search.best is None) == (not meeting)
    assert not meeting or min(meeting) <= search.bytes <= min(meeting) + max(16, search.bytes // 256)


def test_a_limit_of_which_the_draft_of_a_larger_one_leaves_bytes_is_not_searched() -> None:
    search = _Asked([{160: 1010, 1600: 900}])
    search.search([1200])
    search.search([320, 800, 1200])
    assert search.limits == [1200]
    search.search([160, 1600])
    assert search.limits == [1200, 160, 1600]


def test_forms_that_estimates_know_well_have_to_come_closer_if_changes_cannot_help() -> None:
    """Replays change blocks of schedules that are replayed in a moment."""
    search = _Asked([{160: 1020}])
    (form,) = search._least
    assert search._near_for(form) == NEAR
    search._errors[form] = [Fraction(102, 100)] * TOLD
    assert search._near_for(form) == EVEN / Fraction(102, 100) < NEAR
    search.target = WHOLE_EFFORT.cycles
    assert search._near_for(form) == (1 + MISSED) / Fraction(102, 100)
    search._errors[form].append(Fraction(1, 2))
    assert search._near_for(form) == NEAR


def test_a_form_that_misses_by_far_is_asked_for_no_smaller_limits() -> None:
    slow, fast = dict.fromkeys(range(16, ROOM, 16), 9000), dict.fromkeys(range(512, ROOM, 16), 900)
    search, alone = _Told([slow, fast]), _Told([fast])
    search.close_in()
    alone.close_in()
    assert search.bytes == alone.bytes
    assert search.asked <= alone.asked + 9  # as many as a bisection of its ladder asks for, and the room


@pytest.mark.parametrize("share", [Fraction(1), Fraction(5, 4), Fraction(8, 5)])
def test_no_schedule_of_a_whole_frontier_is_smaller(share: Fraction) -> None:
    whole = frontier("resnet8")
    target, room = int(whole.points[-1].cycles * share), whole.points[-1].memory
    with workers(1) as executor:
        found = smallest_as_fast(task("resnet8"), explore(task("resnet8"), executor, bounds=False), room, target, executor)
    best = whole.at_most(target)
    assert found is not None
    assert best is not None
    assert found.memory <= best.memory
    assert found.cycles <= target
    assert found.schedule.arena_size == found.memory
    check_schedule(found.schedule)


@pytest.mark.parametrize(("loose", "least"), [(Fraction(0), 0), (Fraction(1 << 20), 1)])
def test_a_form_that_is_expected_to_miss_the_target_is_not_packed_closer(
    loose: Fraction, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses that are close to their plans are never packed closer, so such a form is packed whatever it takes."""
    monkeypatch.setattr(drafter, "_LOOSE", loose)
    with workers(1) as executor:
        form = explore(task("tiny_residual"), executor).forms[0]
    assert len(smallest_within(form, 0)) == least
    assert smallest_within(form, 1 << 40) == smallest(form)
