"""Work of the search: a network that gains nothing by streamed pools, tiles and skips made again costs hardly a draft or a replay more.

``benchmarks/bench_work.py`` prints the same counts for any network.
"""

from __future__ import annotations

import pytest
from asked_for import load_task

from benchmarks.bench_work import without_forms, work
from cascader.ethosu.search.request import SIZE
from npu_testbed.asked.request import requested


# A network of at most eight parts is drafted in every form, whatever is expected of it: mean_of_rows makes 84 drafts of two streamed forms,
# which are expected to take 13 and 26 % more cycles, next to 441 of the others.
@pytest.mark.parametrize(
    ("name", "budget", "drafts"), [("residual_int16", 20_000, 1.1), ("residual_uint8", 11_000, 1.1), ("mean_of_rows", 30_000, 1.2)]
)
def test_where_forms_of_fewer_bytes_gain_nothing_there_is_little_more_work(name: str, budget: int, drafts: float) -> None:
    task, request = load_task(f"portfolio:{name}"), requested(f"portfolio:{name}", budget=budget)
    plain = without_forms(task)
    assert len(task.variants()) > len(plain.variants())
    found, expected = work(task, request), work(plain, request)
    assert (found.memory, found.cycles) == (expected.memory, expected.cycles)
    assert found.drafts <= expected.drafts * drafts
    assert 0 < found.replays <= expected.replays * 1.1


def test_where_they_gain_the_work_is_counted_too() -> None:
    task, request = load_task("zoo:ds_cnn"), requested("zoo:ds_cnn", optimise=SIZE)
    found, plain = work(task, request), work(without_forms(task), request)
    assert found.memory < plain.memory
    assert found.replays != plain.replays
