"""Bytes are what a user sets aside: arenas from base to end, aligned; a frontier's bytes are budgets that are accepted."""

from __future__ import annotations

from functools import cache

import pytest
from asked_for import choose, system_said
from msgspec.structs import replace
from scheduling import DEFAULT, legalised, schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.frontends.vela import CompilerOptions, compile_network, named_network
from cascader.frontends.vela.lift import lift
from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_model.program import Binding, DataType
from npu_testbed.comparisons.vela_points import vela_points
from npu_testbed.replays.memory_use import arena_bytes
from npu_testbed.replays.simulation import simulate_schedule
from npu_testbed.replays.vela_runs import VelaPoint, VelaRun, VelaTask
from npu_testbed.reports.summary import summarise, summary_text
from npu_testbed.searches.frontiers import Frontier, replayed_frontier
from sim import footprint, quick_cycles
from validation.builder import NetworkBuilder

SYSTEM = system_said()


def odd_network() -> bytes:
    """Tensors of 315, 245 and 98 bytes, so that no arena ends at a multiple of 16 by itself."""
    net = NetworkBuilder("odd")
    x = net.input((1, 9, 7, 5))
    x = net.conv2d(x, 5, (3, 3), activation="RELU6")
    x = net.conv2d(x, 5, (3, 3), padding="VALID")
    return net.finish([net.conv2d(x, 2, (1, 1))])


def task(model: bytes) -> Task:
    """A search of one layout and few limits, which a frontier and a choice share."""
    network = lift(named_network(compile_network(model, CompilerOptions(DEFAULT, legalise=True))))
    return Task(network, DEFAULT, SYSTEM, Replayer(quick_cycles, SYSTEM), Provenance(), CascadeOptions(rungs=3, dense=0))


@cache
def odd_frontier() -> Frontier:
    with workers(1) as executor:
        return replayed_frontier(task(odd_network()), search(explore(task(odd_network()), executor), EVERYTHING, executor), executor)


def touched(plan: Schedule) -> int:
    """End of the highest byte that a replay touches."""
    network = lower(plan)
    return footprint(network.programs, network.inputs, network.outputs).peak


def test_every_point_of_a_frontier_is_accepted_as_a_budget() -> None:
    points = odd_frontier().points
    peaks = [touched(point.schedule) for point in points]
    assert any(peak % 16 for peak in peaks), "the network is meant to end off a multiple of 16"
    assert all(peak <= point.memory < peak + 16 for peak, point in zip(peaks, points, strict=True))
    with workers(1) as executor:
        for point in points:
            chosen = choose(task(odd_network()), executor, point.memory).point.schedule
            assert chosen.arena_size <= point.memory == point.schedule.arena_size
            assert quick_cycles(lower(chosen), SYSTEM) <= point.cycles


def test_the_smallest_arena_is_accepted_as_a_budget_although_its_last_bytes_are_not_touched() -> None:
    plan = odd_frontier().points[0].schedule
    end = touched(plan)
    assert plan.arena_size - 16 < end < plan.arena_size
    with workers(1) as executor:
        assert choose(task(odd_network()), executor, plan.arena_size).point.schedule.arena_size == plan.arena_size
        with pytest.raises(InputError, match=f"{plan.arena_size} bytes are the smallest arena"):
            choose(task(odd_network()), executor, end)


def test_a_replay_that_ends_inside_the_last_16_bytes_is_as_planned() -> None:
    odd = next(point.schedule for point in odd_frontier().points if touched(point.schedule) % 16)
    simulation = simulate_schedule(replace(odd, provenance=Provenance(memory_system=SYSTEM)))
    summary = summarise(simulation)
    assert summary.peak_bytes < summary.planned_bytes
    assert summary.as_planned
    assert "equal when rounded up to 16" in summary_text(simulation)
    assert not summarise(replace(simulation, planned_bytes=simulation.planned_bytes + 16)).as_planned


def test_the_arena_of_a_compiled_file_is_its_scratch_tensor_and_holds_every_tensor() -> None:
    network = legalised("cpu")
    assert arena_bytes(network) == network.arena_size
    beyond = Binding("far", 1, network.arena_size, (1, 3, 3, 3), DataType(8, signed=True))
    assert arena_bytes(replace(network, outputs=(*network.outputs, beyond))) == network.arena_size + 32
    assert arena_bytes(replace(network, outputs=(*network.outputs, replace(beyond, region=0)))) == network.arena_size


@pytest.mark.parametrize("optimise", ["Size", "Performance"])
def test_velas_bytes_are_what_its_summary_says_with_the_tensors_of_cpu_operators(optimise: str) -> None:
    """The network ends in a CPU operator with the largest tensor, which no NPU operation touches."""
    net = NetworkBuilder("cpu_last")
    x = net.conv2d(net.input((1, 12, 12, 3)), 16)
    model = net.finish([net.depth_to_space(x)])
    said = compile_network(model, CompilerOptions(DEFAULT, optimise=optimise, debug_database=False)).summary.sram_memory_used
    task = VelaTask(model, DEFAULT, "Ethos_U55_High_End_Embedded", "Shared_Sram", None, SYSTEM)
    with workers(1) as executor:
        points, _ = vela_points(task, [VelaRun("C++", optimise)], executor)
    assert isinstance(points[0], VelaPoint)
    assert points[0].memory == said


def test_our_arena_holds_the_tensors_of_cpu_operators() -> None:
    plan = schedule("cpu")
    assert plan.arena_size == arena_bytes(lower(plan))
    assert plan.arena_size >= max(b.byte_range.end for step in lower(plan).steps for b in (*step.inputs, *step.outputs))
