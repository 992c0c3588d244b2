"""The least cycles of jobs in a row: no schedule takes fewer in replay, whatever its copies, addresses, memories and timing."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import accumulate

import pytest
from form_variants import variants
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.draft.group_moves import Groups
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.proof.copy_room import ProofRoom
from cascader.ethosu.proof.least_flow import START, LeastFlow
from cascader.ethosu.proof.least_times import LeastTimes
from cascader.ethosu.proof.least_work import Block, LeastWork
from cascader.ethosu.proof.state import NO_REST, ProofState
from cascader.ethosu.search.divisions import Divisions
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import StripeJob
from npu_model.memory.system import MemorySystem, Pulse
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from npu_testbed.configs import load_timing_adapter
from npu_testbed.memory_options import MemoryOptions
from npu_testbed.models import load_model
from sim import quick_cycles

SYSTEM = MemoryOptions().memory_system()
ARENA, HOME = SYSTEM.ports
SYSTEMS: dict[str, MemorySystem] = {
    "timed": SYSTEM,
    "untimed": load_timing_adapter("off"),
    "slow home": replace(SYSTEM, ports=(ARENA, replace(HOME, pulse=None, cycles_per_word=Fraction(16)))),
    "one port": replace(SYSTEM, region_ports=(0,) * 8),
    "gated arena": replace(SYSTEM, ports=(replace(ARENA, shared=True, pulse=Pulse(100, 300, 60), max_writes=2), HOME)),
}
TIMINGS = (
    DEFAULT_TIMING,
    TimingParameters(buffer_slots=1),
    TimingParameters(buffer_slots=3),
    TimingParameters(posted_writes=False, drain_responses=0),
    TimingParameters(blockdep=BlockdepRule.IGNORED),
    TimingParameters(blockdep=BlockdepRule.DRAINED, kernel_start_cycles=100, drain_responses=2),
    TimingParameters(shram_drains=False, weights_ahead=False, aligned_bursts=False),
    TimingParameters(decodes_streams=False, lookahead=0, grant=1),
)
NETWORKS = (
    "zoo:tiny_conv",
    "zoo:tiny_residual",
    "portfolio:conv_gelu_conv",
    "portfolio:cpu_twice",
    "portfolio:channels_17",
    "portfolio:conv1d",
    "portfolio:int16_add_skip",
    "portfolio:cpu_gather",
    "portfolio:autoencoder",
    "portfolio:tile_at_ends",
)
"""Convolutions, a sum, tables, operators on the CPU, rows that begin in the middle of a word, columns, 16 bits, many weights, transfers."""


@cache
def planned(name: str, device: str, system: str, timing: int) -> tuple[Cascader, Divisions, LeastTimes]:
    memory, parameters = SYSTEMS[system], TIMINGS[timing]
    network = import_network(load_model(name).data, device)
    form = variants(network, device, memory, CascadeOptions(), parameters)[-1]
    plans = Cascader(form, device, memory, provenance=Provenance(timing=parameters))
    return plans, Divisions(plans), LeastTimes(plans, memory)


def drawn(data: st.DataObject, divisions: Divisions, count: int) -> tuple[Groups, list[StripeJob]]:
    """A division, and its jobs."""
    groups: Groups = ()
    while sum(group.last + 1 - group.first for group in groups) < count:
        first = groups[-1].last + 1 if groups else 0
        groups = (*groups, data.draw(st.sampled_from(divisions.groups(first))))
    return groups, [job for group in groups for job in divisions.jobs(group)]


def blocks(times: LeastTimes, jobs: list[StripeJob], chosen: frozenset[int]) -> list[Shape3D | None]:
    """The blocks of all jobs, from the cheapest of each last kernel back (None: not known, or the job is no kernel)."""
    states = list(accumulate(jobs, lambda state, job: times.after(state, (job,), chosen), initial=times.begin()))
    found, at, is_last = list[Shape3D | None](), 0, True
    for job, before, after in zip(reversed(jobs), states[-2::-1], states[:0:-1], strict=True):
        if after.last is None or after.last.job != job or not after.chain.is_known:
            found.append(None)
            is_last = True
            continue
        at = after.chain.costs.index(min(after.chain.costs)) if is_last else at
        found.append(after.last.options[at].block)
        at, is_last = times._blocks.behind(before.chain, before.last, after.last)[1][at], before.last is None
    return found[::-1]


def with_room(plans: Cascader, system: MemorySystem, groups: Groups, chosen: frozenset[int], budget: int) -> int:
    """The least cycles of a division with a set of copies, each of which comes when it has room."""
    room, divisions = ProofRoom(plans, budget), Divisions(plans)
    times, jobs = LeastTimes(plans, system, room), [job for group in groups for job in divisions.jobs(group)]
    return times.after(times.begin(), jobs, chosen, [int(live) for group in groups for live in room.live(group)]).cycles


@settings(max_examples=30)
@given(
    st.data(),
    st.sampled_from(NETWORKS),
    st.sampled_from(["ethos-u55-128", "ethos-u55-32"]),
    st.sampled_from(sorted(SYSTEMS)),
    st.integers(0, len(TIMINGS) - 1),
)
def test_no_schedule_takes_fewer_cycles_than_its_bound(data: st.DataObject, name: str, device: str, system: str, timing: int) -> None:
    """Each division, each set of copies, with room for all of them or less: the bound for any copies or any room is no higher."""
    plans, divisions, times = planned(name, device, system, timing)
    groups, jobs = drawn(data, divisions, len(plans.graph.parts))
    parts = [part for part in range(len(plans.graph.parts)) if plans.cost.constant_bytes(part)]
    chosen = frozenset(data.draw(st.sets(st.sampled_from(parts))) if parts else ())
    anyhow, least = (times.after(times.begin(), jobs, staged).cycles for staged in (None, chosen))
    room = plans.copy_sets.room(groups)
    budget = data.draw(st.sampled_from([room, room * 3 // 4 // 16 * 16, room * 5 // 8 // 16 * 16]))
    roomy = with_room(plans, SYSTEMS[system], groups, chosen, budget)
    for draft in plans.copy_sets.drafts(groups, chosen, budget, shares=False):
        made = plans.schedule(plans.in_blocks(draft))
        assert anyhow <= least <= roomy <= quick_cycles(lower(made), SYSTEMS[system], TIMINGS[timing])


@settings(max_examples=20)
@given(st.data(), st.sampled_from(NETWORKS), st.sampled_from(sorted(SYSTEMS)), st.integers(0, len(TIMINGS) - 1))
def test_no_schedule_takes_fewer_cycles_than_what_is_said_ahead_of_its_end(
    data: st.DataObject, name: str, system: str, timing: int
) -> None:
    """The bound of the first jobs with a set of copies, with the rest of the division in any way; what a job reads at home comes before."""
    plans, divisions, times = planned(name, "ethos-u55-128", system, timing)
    count = len(plans.graph.parts)
    groups, jobs = drawn(data, divisions, count)
    chosen = frozenset(part for part in range(count) if plans.cost.constant_bytes(part) and data.draw(st.booleans()))
    cut = data.draw(st.integers(0, len(jobs) - 1))
    holding = next(number for number, group in enumerate(groups) if jobs[cut].part <= group.last)
    rest = NO_REST
    for group in reversed(groups[holding + 1 :]):
        rest = times.rest(group.first, [(divisions.jobs(group), group.last + 1, rest)], times.after, divisions.last_job(group.first))
    group, done = groups[holding], cut - sum(len(divisions.jobs(group)) for group in groups[:holding])
    last = divisions.jobs(group)[done - 1] if done else divisions.last_job(group.first)
    left = times.rest(group.first, [(divisions.jobs(group)[done:], group.last + 1, rest)], times.after, last)
    before: ProofState = times.after(times.begin(), jobs[:cut], chosen)
    if jobs[cut].part not in chosen:
        assert times.read(before, jobs[cut]) <= times.after(before, jobs[cut : cut + 1], chosen).cycles
    for draft in plans.copy_sets.drafts(groups, chosen, plans.copy_sets.room(groups), shares=False):
        replayed = quick_cycles(lower(plans.schedule(plans.in_blocks(draft))), SYSTEMS[system], TIMINGS[timing])
        assert times.whole(before, group.last + 1, left) <= replayed


@settings(max_examples=20)
@given(st.data(), st.sampled_from(NETWORKS), st.sampled_from(["timed", "untimed"]))
def test_the_blocks_are_those_that_the_search_chooses(data: st.DataObject, name: str, system: str) -> None:
    """Job by job with the blocks of each job before, and from the last job back: where they are known, they are the schedule's."""
    plans, divisions, times = planned(name, "ethos-u55-128", system, 0)
    groups, jobs = drawn(data, divisions, len(plans.graph.parts))
    parts = [part for part in range(len(plans.graph.parts)) if plans.cost.constant_bytes(part)]
    chosen = frozenset(data.draw(st.sets(st.sampled_from(parts))) if parts else ())
    for draft in plans.copy_sets.drafts(groups, chosen, plans.copy_sets.room(groups), shares=False):
        made = plans.schedule(plans.in_blocks(draft))
        assert all(block is None or block == job.block for block, job in zip(blocks(times, jobs, chosen), made.jobs, strict=True))


def test_a_copy_waits_until_no_kernel_needs_its_room() -> None:
    """Measured: layer by layer with all copies conv_strided_at_ends takes 30,163 cycles in 17,152 bytes, 22,563 in any; replayed 33,650."""
    plans, divisions, _ = planned("portfolio:conv_strided_at_ends", "ethos-u55-128", "timed", 0)
    groups = tuple(divisions.groups(part)[0] for part in range(len(plans.graph.parts)))
    chosen = frozenset(part for part in range(len(plans.graph.parts)) if plans.cost.constant_bytes(part))
    ample, scarce = (with_room(plans, SYSTEM, groups, chosen, budget) for budget in (1 << 20, 17152))
    (draft, *_) = plans.copy_sets.drafts(groups, chosen, 17152, shares=False)
    assert 1.1 * ample < scarce <= quick_cycles(lower(plans.schedule(plans.in_blocks(draft))), SYSTEM)


def test_the_bounds_of_the_default_timing_are_near() -> None:
    """Measured: the layers of tiny_residual one by one, their constants at home, take 0.94 of their replay at least."""
    plans, divisions, times = planned("zoo:tiny_residual", "ethos-u55-128", "timed", 0)
    groups = tuple(next(iter(divisions.groups(part))) for part in range(len(plans.graph.parts)))
    jobs = [job for group in groups for job in divisions.jobs(group)]
    (draft,) = plans.copy_sets.drafts(groups, frozenset(), plans.copy_sets.room(groups), shares=False)
    replayed = quick_cycles(lower(plans.schedule(plans.in_blocks(draft))), SYSTEM)
    assert 0.9 * replayed <= times.after(times.begin(), jobs, frozenset()).cycles <= replayed


def test_a_flow_is_that_of_its_slowest_unit_and_what_comes_before_and_behind_it() -> None:
    """Four blocks: fetch 10, constants 5, MACs 100, output 20, store 8, and a response of 32 at the end."""
    block = Block(((10, 5, 100, False),), 20, 8)
    flow = LeastFlow(LeastWork((block,) * 4, 0, 32), DEFAULT_TIMING)
    alone = flow.behind(START, None)
    assert alone.finish == 10 + 4 * 100 + 20 + 8 + 32
    # Behind a kernel that is done at once but for its MACs, these are what is waited for.
    assert flow.behind(START._replace(mac=50), None).finish == 50 + 4 * 100 + 20 + 8 + 32
    # All blocks wait for the kernel before, or all but three.
    late = START._replace(finish=1000)
    assert flow.behind(late, 0).finish == 1000 + alone.finish
    assert flow.behind(late, 3).finish == 1000 + 10 + 100 + 20 + 8 + 32
    assert flow.behind(late, None) == alone


@pytest.mark.parametrize("slots", [1, 2])
def test_a_decoder_goes_on_while_its_kernel_waits_for_the_one_before(slots: int) -> None:
    """Its constants, of 500 cycles, are there when its IFM is fetched at last."""
    block = Block(((10, 500, 100, False),), 20, 8)
    flow = LeastFlow(LeastWork((block,), 0, 32), TimingParameters(buffer_slots=slots))
    assert flow.behind(START._replace(finish=1000), 0).finish == 1000 + 10 + 100 + 20 + 8 + 32


@pytest.mark.parametrize(("slots", "end"), [(1, 4 * 101 + 1), (2, 1 + 3 * 100 + 1), (3, 1 + 2 * 100 + 1)])
def test_a_fetch_waits_for_a_slot(slots: int, end: int) -> None:
    """Five fetches of one cycle before MACs of a hundred: with one slot each waits for the MACs before, with more for earlier ones."""
    block = Block(((1, 0, 100, False),) * 5, 0, 0)
    flow = LeastFlow(LeastWork((block,), 0, 0), TimingParameters(buffer_slots=slots))
    assert flow.behind(START, None).load == end
