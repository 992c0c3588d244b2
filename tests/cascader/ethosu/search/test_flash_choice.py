"""If bytes count, a form of a smaller stream is taken where arenas are within 1 %."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from cascader.ethosu.search import choice


def form_taken(monkeypatch: pytest.MonkeyPatch, forms: dict[int, tuple[int, int]]) -> set[int]:
    """The forms of the chosen drafts; each form has an arena and bytes of flash."""
    drafts = [SimpleNamespace(form=form, memory=memory, cycles=100 + form) for form, (memory, _) in forms.items()]
    for name, made in {
        "_packed": lambda _self: drafts,
        "_fitting": lambda _self, some: list(some),
        "_flash": lambda _self, draft: forms[draft.form][1],
    }.items():
        monkeypatch.setattr(choice._Chooser, name, made)  # the choice alone, without a search
    nothing: Any = SimpleNamespace(budget=None)
    chooser = choice._Chooser(nothing, nothing, nothing, nothing, nothing, 0, None)
    return {draft.form for draft in chooser.smallest()}


@pytest.mark.parametrize(
    ("forms", "taken"),
    [
        ({0: (10_000, 5_000), 1: (10_100, 4_950)}, 1),
        ({0: (10_000, 5_000), 1: (10_112, 1_000)}, 0),
        ({0: (10_000, 5_000), 1: (10_048, 4_951)}, 0),
        ({0: (10_000, 5_000), 1: (10_048, 4_900), 2: (10_096, 4_800)}, 2),
    ],
    ids=["one_per_cent_larger", "more_than_one_per_cent_larger", "hardly_less_flash", "least_flash_of_three"],
)
def test_the_smaller_stream_is_taken_where_arenas_are_about_equal(
    monkeypatch: pytest.MonkeyPatch, forms: dict[int, tuple[int, int]], taken: int
) -> None:
    assert form_taken(monkeypatch, forms) == {taken}


def test_of_equal_arenas_all_drafts_stay_without_a_smaller_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert form_taken(monkeypatch, {0: (10_000, 5_000), 1: (10_000, 5_000)}) == {0, 1}


def test_forms_whose_plans_hold_too_many_bytes_are_not_packed() -> None:
    packed = list[int]()
    leasts, memories = (20_000, 9_000, 10_500, 10_800, 10_900), (20_000, 10_000, 10_600, 10_800, 9_000)

    def submit(_call: object, form: Any) -> Future[Any]:
        packed.append(form.number)
        answer = Future[Any]()
        answer.set_result((SimpleNamespace(memory=memories[form.number], runs=form.number),))
        return answer

    class Form:
        def __init__(self, number: int) -> None:
            self.number, self.description = number, ""

    forms = list(map(Form, range(len(leasts))))
    explored: Any = SimpleNamespace(forms=forms, ladders=[(least,) for least in leasts])
    told: Any = SimpleNamespace(show=lambda _text: None, came=lambda _form, _draft: None, submit=submit)
    chooser = choice._Chooser(explored, told, told, told, told, 0, None)
    assert [draft.runs for draft in chooser._packed()] == [1, 2]
    assert packed == [1, 2]
