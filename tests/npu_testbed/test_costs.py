"""A cost of the user's own: the cheapest of all that were replayed is chosen, by figures that are those of the replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asked_for import of_bytes

import cascader
import npu_testbed
from cascader.ethosu.job.staging import staged_bytes
from npu_model.memory.timing_adapter import profile
from npu_testbed import Figures
from sim import quick_cycles
from validation.zoo import build

MODEL = "zoo:tiny_residual"


def chosen(cost: Callable[[Figures], float], **options: Any) -> tuple[Any, list[Figures]]:
    """The schedule by a cost, and the figures that the cost was asked of."""
    asked: list[Figures] = []

    def listened(figures: Figures) -> float:
        asked.append(figures)
        return cost(figures)

    return npu_testbed.schedule(MODEL, cost=listened, no_advice=True, **{"jobs": 1} | options), asked


COSTS: dict[str, Callable[[Figures], float]] = {
    "traffic": lambda one: one.traffic,
    "energy": lambda one: one.cycles + 12.5 * (one.axi0_read_bytes + one.axi0_write_bytes) + 162.5 * one.axi1_read_bytes,
    "bytes": lambda one: one.arena_bytes,
    "the slowest": lambda one: -one.cycles,
    "whatever": lambda _: 0.0,
}


@pytest.mark.parametrize("name", COSTS)
def test_the_cheapest_of_all_that_were_asked_of_is_chosen(name: str) -> None:
    made, asked = chosen(COSTS[name])
    own = next(one for one in asked if one.schedule == made.schedule)
    assert COSTS[name](own) == min(map(COSTS[name], asked))
    assert len({id(one.schedule) for one in asked}) == len(asked)


def test_figures_are_those_of_the_replay() -> None:
    made, asked = chosen(lambda one: one.traffic)
    own, replay = next(one for one in asked if one.schedule == made.schedule), made.simulation.replay
    moved = (own.axi0_read_bytes, own.axi0_write_bytes, own.axi1_read_bytes, own.axi1_write_bytes)
    beats = replay.beats
    assert moved == tuple(8 * one for one in (beats.axi0_read, beats.axi0_write, beats.axi1_read, beats.axi1_write))
    assert (own.cycles, own.arena_bytes, own.clock_hz) == (replay.cycles, made.arena_bytes, made.simulation.system.clock_hz)
    assert own.macs == sum(op.macs for program in made.simulation.network.programs for op in program.kernels)
    for one in asked:
        parts = {part.name: part.payload for part in one.schedule.network.graph.parts}
        assert one.copied_bytes == sum(staged_bytes(parts[copy.part].operation) for copy in one.schedule.copies)


def test_a_cost_changes_the_answer_within_the_budget() -> None:
    fastest = npu_testbed.schedule(MODEL, arena_cache_size=16000, no_advice=True, jobs=1)
    frugal, asked = chosen(lambda one: one.arena_bytes * one.cycles, arena_cache_size=16000)
    assert frugal.arena_bytes * frugal.cycles < fastest.arena_bytes * fastest.cycles
    assert all(one.arena_bytes <= 16000 for one in asked)
    by_cycles, _ = chosen(lambda one: one.cycles, arena_cache_size=16000)
    assert by_cycles.cycles <= fastest.cycles


@pytest.mark.usefixtures("every_search_runs")
def test_the_answer_does_not_depend_on_processes() -> None:
    alone, together = (chosen(COSTS["energy"], jobs=jobs)[0].schedule for jobs in (1, 2))
    assert alone == together


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cost": lambda _: float("nan")}, "return a finite number"),
        ({"cost": lambda _: "much"}, "'much': return a finite number"),
        ({"cost": 3}, "cost=3 cannot be: give a function or a text."),
        ({"cost": lambda one: one.cycles, "optimise": "Size"}, "another aim: drop one"),
        ({"cost": lambda one: one.cycles, "no_cascade": True}, "which leaves no choice"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(npu_testbed.Error) as refused:
        npu_testbed.schedule(MODEL, jobs=1, **options)
    assert said in str(refused.value)


def test_the_cascader_alone_takes_a_price_of_points() -> None:
    prices: list[float] = []

    def price(point: Any) -> float:
        prices.append(point.memory * point.cycles)
        return prices[-1]

    memory = profile("u55_high_end").memory_system()
    found = cascader.schedule(of_bytes(build("tiny_residual"), "ethos-u55-128", memory), quick_cycles, cascader.Run(price=price))
    assert found.point.memory * found.point.cycles == min(prices)
