"""More room never makes an answer worse: what is searched is decided by the cycles that it may save."""

from __future__ import annotations

import pytest
from asked_for import choose, load_task
from msgspec.structs import replace

from cascader.ethosu.search.request import Run
from cascader.ethosu.search.search import explore
from cascader.ethosu.search.task import Task
from cascader.search.workers import workers

MNIST = "portfolio:mnist"
MEANS = ("portfolio:conv_mean_keep_conv", "portfolio:mean_of_uint8")


def _names(task: Task, room: int | None) -> list[str]:
    with workers(1) as executor:
        return [form.name for form in explore(task, executor, bounds=False, room=room).forms]


def _cycles(task: Task, budget: int | None) -> int:
    with workers(1) as executor:
        return choose(task, executor, budget, Run(bounds=False)).point.cycles


@pytest.mark.parametrize(("room", "again"), [(31_120, True), (1 << 20, False), (None, True)])
def test_work_is_done_again_where_more_room_would_save_cycles(room: int | None, again: bool) -> None:  # noqa: FBT001
    assert any("recomputed" in name for name in _names(load_task(MNIST), room)) == again


def test_mnist_is_as_fast_in_its_bytes_as_its_frontier_is() -> None:
    assert _cycles(load_task(MNIST), 31_120) <= 209_769


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_summed_in_pieces_with_any_budget(name: str) -> None:
    task = load_task(name)
    most = _cycles(task, 1 << 20)
    assert _cycles(task, None) <= most * 1.002
    off = replace(task, options=replace(task.options, quick_means=False, small_forms=False))
    assert most < _cycles(off, None) * 0.9


def test_a_form_that_is_expected_to_be_a_little_slower_is_searched_to_its_end() -> None:
    assert _cycles(load_task("zoo:ds_cnn"), 15_632) <= 90_654
