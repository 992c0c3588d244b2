"""The lower bound of cycles: no schedule that is searched undercuts it, and where one unit has all the work it is near."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import accumulate, islice, pairwise, product

import pytest
from asked_for import system_said
from few_examples import few_cases
from form_variants import variants
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.draft.drafter import DraftOptions
from cascader.draft.group_moves import divisions
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.judge.replay import Replayer
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.bound import Pace, least_cycles
from cascader.ethosu.search.cuts import CycleBound, Repeated, cycle_bound
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import DepthFirstScheduler
from cascader.search.workers import workers
from npu_model.documents import plain, typed
from npu_model.memory.system import MemorySystem
from npu_model.shapes import round_up
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.models.sources import load_model
from sim import quick_cycles

SYSTEM = system_said()
FAST = load_timing_adapter("off")
DEVICE = "ethos-u55-128"
KINDS = (
    "zoo:ds_cnn",
    "zoo:resnet8",
    "portfolio:residual_int16",
    "portfolio:lstm_short",
    "portfolio:uint8_hard_swish",
    "portfolio:inception",
)
"""Convolutions of every kind, sums, tables, 16 bits, recurrence."""


def slow_home() -> MemorySystem:
    """Constants at a sixteenth of the bytes per cycle: what has no room beside the tensors counts."""
    arena, home = SYSTEM.ports
    return replace(SYSTEM, ports=(arena, replace(home, pulse=None, cycles_per_word=Fraction(16))))


SYSTEMS = {"timed": SYSTEM, "untimed": FAST, "slow home": slow_home()}


@cache
def network(name: str, device: str) -> Network:
    return import_network(load_model(name).data, device)


def bound(form: Network, device: str, system: MemorySystem) -> int:
    return least_cycles(form, DepthFirstScheduler(row_graph(form)), device, system)


@pytest.mark.law
@pytest.mark.parametrize(("name", "device"), few_cases(KINDS, ["ethos-u55-32", "ethos-u55-128", "ethos-u55-256"]))
def test_no_form_takes_fewer_cycles_layer_by_layer_than_its_bound(name: str, device: str) -> None:
    for system in (SYSTEM, FAST):
        for form in variants(network(name, device), device, system, CascadeOptions()):
            replayed = quick_cycles(lower(schedule_layer_by_layer(form, device)), system)
            assert 0 < bound(form, device, system) <= replayed


@pytest.mark.law
@pytest.mark.parametrize(("name", "memory"), few_cases(["zoo:tiny_conv", "zoo:resnet8", "zoo:tiny_residual"], ["timed", "untimed"]))
def test_no_draft_of_a_search_takes_fewer_cycles_than_the_bound(name: str, memory: str) -> None:
    system = SYSTEMS[memory]
    options = CascadeOptions(rungs=4, drafts=DraftOptions(moves=20))
    task = Task(network(name, "ethos-u55-128"), "ethos-u55-128", system, Replayer(quick_cycles, system), options=options)
    with workers(1) as executor:
        found = search(explore(task, executor), EVERYTHING, executor)
    cycles = [quick_cycles(lower(found.explored.form_of(draft).schedule(draft)), system) for draft in found.drafts]
    assert 0 < found.explored.least_cycles(None) <= min(cycles)


def test_a_network_that_keeps_the_macs_busy_takes_little_more_than_its_bound() -> None:
    """Measured: 1.03 times."""
    whole = network("portfolio:mnist", "ethos-u55-32")
    replayed = quick_cycles(lower(schedule_layer_by_layer(whole, "ethos-u55-32")), FAST)
    assert replayed < 1.05 * bound(whole, "ethos-u55-32", FAST)


@pytest.mark.law
@pytest.mark.parametrize(("name", "memory"), few_cases(["zoo:tiny_conv", "zoo:tiny_residual", "portfolio:mnist"], list(SYSTEMS)))
def test_no_division_of_a_tiny_network_takes_fewer_cycles_than_its_arena_allows(name: str, memory: str) -> None:
    """Every division into groups and stripes, with no room for copies, a little, and room for all of them."""
    system = SYSTEMS[memory]
    for form in variants(network(name, DEVICE), DEVICE, system, CascadeOptions())[:2]:
        plans = Cascader(form, DEVICE, system)
        bound = cycle_bound(form, plans.scheduler, DEVICE, system)
        drafter = plans.drafter
        constants = sum(plans.cost.constant_bytes(part) for part in range(len(plans.graph.parts)))
        for groups in islice(divisions(plans.graph, (1, 4)), 0, 4000, 37):
            peak = drafter.placement.greedily(groups)[0]
            for room in (0, constants // 4, constants):
                draft = drafter.trials.trial(groups, [], round_up(peak + room, 16))
                assert draft is not None
                made = plans.schedule(plans.in_blocks(draft))
                assert bound.at(made.arena_size) <= quick_cycles(lower(made), system)


@pytest.mark.law
@pytest.mark.parametrize(("name", "memory"), few_cases(["zoo:ds_cnn", "zoo:resnet8"], list(SYSTEMS)))
def test_no_schedule_takes_fewer_cycles_than_its_arena_allows(name: str, memory: str) -> None:
    options, system = CascadeOptions(rungs=6, drafts=DraftOptions(moves=20, regroupings=12)), SYSTEMS[memory]
    for form in variants(network(name, DEVICE), DEVICE, system, options)[:3]:
        plans = Cascader(form, DEVICE, system, options)
        bound = cycle_bound(form, plans.scheduler, DEVICE, system)
        for draft in {draft for limit in plans.limits()[::3] for draft in plans.drafts_at(limit)}:
            assert bound.at(draft.memory) <= quick_cycles(lower(plans.schedule(draft)), system)


@pytest.mark.parametrize("name", KINDS)
def test_a_larger_arena_never_raises_the_bound(name: str) -> None:
    form = network(name, DEVICE)
    bound = cycle_bound(form, DepthFirstScheduler(row_graph(form)), DEVICE, slow_home())
    found = [*map(bound.at, (1024, 4096, 16384, 65536)), bound.at(None)]
    assert found == sorted(found, reverse=True)
    assert found[-1] >= bound.anyhow


def test_weights_that_have_no_room_beside_the_tensors_before_them_raise_the_bound() -> None:
    """The first layers of mnist compute, its last ones read weights, a byte a cycle: a small arena cannot hide one after the other."""
    form, home = network("portfolio:mnist", DEVICE), SYSTEM.ports[1]
    system = replace(SYSTEM, ports=(SYSTEM.ports[0], replace(home, pulse=None, cycles_per_word=Fraction(8))))
    bound = cycle_bound(form, DepthFirstScheduler(row_graph(form)), DEVICE, system)
    assert bound.at(1024) > 1.04 * bound.at(None)


def _cheapest(part: Repeated, arena: int) -> int | None:
    """Bytes that are read again in the best of all ways to cut a part's rows into jobs; None if none fits."""
    total, ways = len(part.held), []
    for borders in product((False, True), repeat=total - 1):
        cuts = [0, *(row + 1 for row, is_cut in enumerate(borders) if is_cut), total]
        jobs = [end - start for start, end in pairwise(cuts)]
        if max(jobs) <= part.most and all(part.held[rows - 1] <= arena for rows in jobs):
            is_kept = all(part.held[rows - 1] + part.weights <= arena for rows in jobs)
            ways.append(0 if is_kept else max(sum(part.held[rows - 1] + part.weights > arena for rows in jobs) - 1, 0) * part.weights)
    return min(ways, default=None)


@settings(derandomize=True, max_examples=60)
@given(
    weights=st.integers(1, 60),
    steps=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    most=st.integers(1, 8),
    arena=st.integers(0, 200),
)
def test_no_way_to_cut_a_part_reads_fewer_weights_again_than_is_said(weights: int, steps: list[int], most: int, arena: int) -> None:
    part = Repeated(weights, tuple(accumulate(steps)), min(most, len(steps)), blocks=1)
    best = _cheapest(part, arena)
    assert best is None or part.again(arena) <= best


def test_constants_that_cannot_stay_are_read_by_every_job() -> None:
    """Two rows at a time have room, and the weights beside none: five jobs for nine rows."""
    part = Repeated(weights=1000, held=tuple(range(100, 1000, 100)), most=9, blocks=1)
    assert (part.again(250), part.again(1099), part.again(1100)) == (4000, 0, 0)
    assert replace(part, blocks=8).again(250) == 7000


def test_a_gate_lets_so_many_words_pass_in_each_period() -> None:
    """50 words in 400 cycles, and the rest of a burst of eight; the last period may end early."""
    pace = Pace.of(SYSTEM.ports[1])
    assert (pace.capped, pace.period) == (57, 400)
    assert pace.gated(57 * 8 * 5) == 4 * 400
    assert Pace.of(FAST.ports[1]).gated(800) == 0


def test_a_bound_is_the_same_once_it_was_kept_as_json() -> None:
    form = network("zoo:tiny_conv", DEVICE)
    found = cycle_bound(form, Cascader(form, DEVICE, SYSTEM).scheduler, DEVICE, SYSTEM)
    assert typed(CycleBound, plain(found)) == found
