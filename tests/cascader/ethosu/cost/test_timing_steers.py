"""The timing parameters steer the search: they reach its cost model, and a schedule is made for the machine that was calibrated."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import call
from few_examples import few_cases
from msgspec.structs import replace
from scheduling import DEFAULT, network
from small_programs import memories, memory, program
from test_kernel_flow import OPERATIONS, max_pool

from cascader.ethosu.cost.estimate_terms import KERNEL_WORDS, Terms
from cascader.ethosu.cost.estimates import shared_estimates
from cascader.ethosu.cost.kernel_flow import Pipeline, kernel_flow
from cascader.ethosu.cost.kernel_load import operation_load
from cascader.ethosu.cost.memory_path import Source, Sources
from cascader.ethosu.cost.neighbours import Neighbours
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.network.rows import row_graph
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import Kernel
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import replay
from validation.fvp.references.records import measured_program, points

DEVICE = accelerator(DEFAULT)
SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
_PROFILE = profile(DEFAULT_TIMING_ADAPTER)
CAPPED = replace(_PROFILE, sram=replace(_PROFILE.sram, bwcap=2000, wlatency=200)).memory_system()
"""An arena whose cap is half of what its path passes, and whose responses take their time."""

ALONE: tuple[dict[str, Any], ...] = (
    {"buffer_slots": 1},
    {"kernel_start_cycles": 40},
    {"output_start_cycles": 8},
    {"output_scale": Fraction(7, 6)},
    {"decoder_cycles_per_channel": 8},
    {"pool_floor": 32},
    {"pool_passes": False},
    {"kept_ifm_blocks": 0},
    {"posted_writes": False},
    {"buffer_slots": 1, "posted_writes": False, "weights_ahead": False, "kernel_start_cycles": 7},
)


RESPONSE = 100
"""Write latency of the arena: long enough to be seen behind the reads."""


def system_of(latency: int) -> MemorySystem:
    return memories(replace(memory(latency), write_latency=RESPONSE), memory(2 * latency))


def sources_of(timing: TimingParameters, latency: int) -> Sources:
    response = 0 if timing.posted_writes else RESPONSE
    return Sources(Source(1.0, latency), Source(1.0, 2 * latency), shared=False, timing=timing, slot_response=response)


@pytest.mark.law
@pytest.mark.parametrize(("change", "name"), few_cases(ALONE, list(OPERATIONS)))
def test_the_engine_with_another_timing_takes_exactly_as_long_as_the_flow_with_it(name: str, change: dict[str, Any]) -> None:
    latency, timing = 32, replace(DEFAULT_TIMING, **change)
    (alone,) = replay(program(OPERATIONS[name]), system_of(latency), timing=timing).operations
    sources = sources_of(timing, latency)
    flow = kernel_flow(operation_load(OPERATIONS[name], DEVICE, timing=timing), sources)
    assert flow.cycles + RESPONSE == alone.finished - alone.issued


BEHIND: tuple[dict[str, Any], ...] = ({"drain_responses": 0}, {"drain_responses": 3}, {"weights_ahead": False}, {"kernel_start_cycles": 9})


@pytest.mark.parametrize("change", BEHIND, ids=str)
@pytest.mark.parametrize("second", OPERATIONS)
def test_a_kernel_behind_another_waits_as_the_timing_has_it(second: str, change: dict[str, Any]) -> None:
    latency, timing = 32, replace(DEFAULT_TIMING, **change)
    operations = OPERATIONS["one block"], replace(OPERATIONS[second], blockdep=0)
    one, two = replay(program(*operations), system_of(latency), timing=timing).operations
    pipeline, sources = Pipeline(RESPONSE), sources_of(timing, latency)
    pipeline.run(operation_load(operations[0], DEVICE, timing=timing), sources)
    assert pipeline.run(operation_load(operations[1], DEVICE, timing=timing), sources).cycles == two.finished - one.issued - RESPONSE


UNSEEN = {
    "lookahead": "a stream of reads keeps its path busy however far ahead it is asked for",
    "aligned_bursts": "transactions are counted as if none were cut at a border",
    "sliding_cap": "a cap is what passes for long, whichever cycles it is counted in",
}
"""Timing parameters that the cost model does not see, and why; the replays that choose among its schedules do."""

CHANGES: dict[str, Any] = {
    "pool_floor": 32,
    "pool_passes": False,
    "depthwise_delays": False,
    "decoder_cycles_per_channel": 8,
    "decodes_streams": False,
    "output_scale": Fraction(5, 4),
    "output_start_cycles": 32,
    "kept_ifm_blocks": 0,
    "buffer_slots": 1,
    "kernel_start_cycles": 96,
    "blockdep": BlockdepRule.DRAINED,
    "drain_responses": 4,
    "posted_writes": False,
    "shram_drains": False,
    "weights_ahead": False,
    "weights_at_once": 256,
    "command_cycles_per_word": 64,
    "ifm_burst_divisor": 1,
    "grant": 64,
    "shared_cap": False,
}


@cache
def costs(timing: TimingParameters) -> tuple[object, ...]:
    """Costs that the search is told: of a few networks' stripes, of neighbours among them, and of single kernels."""
    found: list[object] = []
    for name in ("ds_cnn", "resnet8"):
        graph = row_graph(network(name))
        cost = StripeCost(network(name), graph, DEVICE, SYSTEM, timing)
        jobs = [StripeJob(number, 0, part.rows) for number, part in enumerate(graph.parts)]
        found += [cost.times(job.part, job.start, job.end) for job in jobs]
        neighbours = Neighbours(network(name), graph, cost, DEVICE)
        found += [neighbours.shared(*pair, before_staged=False, staged=False) for pair in pairwise(jobs)]
    kernels = (*OPERATIONS.values(), max_pool(Shape3D(16, 16, 16), Shape3D(1, 2, 16), Kernel(1, 1)))
    for system in (SYSTEM, CAPPED):
        terms = Terms.of(DEVICE, system, timing, choose_blocks=False)
        found += [shared_estimates(terms).of(op, (), b"").staged.facts for op in kernels]
    return tuple(found)


@pytest.mark.parametrize("name", [name for name in TimingParameters.__struct_fields__ if name not in UNSEEN])
def test_every_timing_parameter_reaches_the_cost_model(name: str) -> None:
    assert costs(replace(DEFAULT_TIMING, **{name: CHANGES[name]})) != costs(DEFAULT_TIMING)


@pytest.mark.parametrize("name", sorted(UNSEEN))
def test_the_cost_model_does_not_see_what_only_replays_can_tell(name: str) -> None:
    change = {"lookahead": 0, "aligned_bursts": False, "sliding_cap": False}[name]
    assert costs(replace(DEFAULT_TIMING, **{name: change})) == costs(DEFAULT_TIMING)


def test_a_kernel_has_about_as_many_command_words_as_the_search_counts() -> None:
    programs = [measured_program(*names) for names in sorted({(point.network, point.accelerator) for point in points()})]
    assert round(sum(sum(one.words) for one in programs) / sum(len(one.kernels) for one in programs)) == KERNEL_WORDS


@pytest.mark.parametrize("cycles", [50, 400])
def test_a_start_of_every_kernel_costs_every_stripe_as_much(cycles: int) -> None:
    graph = row_graph(network("ds_cnn"))
    before, after = (
        StripeCost(network("ds_cnn"), graph, DEVICE, SYSTEM, timing, choose_blocks=False)
        for timing in (DEFAULT_TIMING, TimingParameters(kernel_start_cycles=cycles))
    )
    lines = [tuple(cost.times(n, 0, p.rows) for cost in (before, after)) for n, p in enumerate(graph.parts)]
    added = [(late.staged - late.staged_lead) - (early.staged - early.staged_lead) for early, late in lines]
    # Less where the start passes while something else binds.
    assert all(0 <= one <= cycles for one in added)
    assert sum(added) > 0.8 * cycles * len(added)


def test_a_schedule_for_a_calibrated_machine_is_no_slower_on_it_than_the_one_for_the_model(tmp_path: Path) -> None:
    """Kernels that take 4,000 cycles to start are worth fewer stripes: 24 KiB of ds_cnn hold other schedules then."""
    profile, cycles = tmp_path / "slow_start.toml", {}
    profile.write_text("schema = 1\n[timing]\nkernel_start_cycles = 4000\n", encoding="utf-8")
    for name, words in (("model", ()), ("machine", ("--timing", profile))):
        path = tmp_path / f"{name}.json"
        assert call("schedule", "zoo:ds_cnn", "--arena-cache-size", 24576, "--jobs", 1, "-o", path, *words).status == 0
        outcome = call("simulate", "schedule", path, "--timing", profile)
        assert "Timing" in outcome.output
        cycles[name] = int(outcome.output.split("NPU cycles")[1].split()[0].replace(",", ""))
        # Without the option a schedule is replayed with the timing that it was made for.
        assert ("kernel_start_cycles = 4000" in call("simulate", "schedule", path).output) == (name == "machine")
    assert cycles["machine"] < cycles["model"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 1\n[timing]\nspeed = 2\n", "Timing parameter 'speed' is unknown"),
        ("schema = 1\n", "has no table [timing]"),
        ("schema = 7\n[timing]\n", "has schema 7: schema 1 is read"),
        ("schema = 1\n[timing]\ngrant = 0\n", "grant is 0: it ranges from 1 to 1024"),
    ],
)
@pytest.mark.parametrize("command", [("schedule", "zoo:tiny_conv", "-o", "s.json"), ("frontier", "zoo:tiny_conv"), ("validate", "fvp")])
def test_a_wrong_profile_is_one_sentence(tmp_path: Path, command: tuple[str, ...], text: str, message: str) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(text, encoding="utf-8")
    outcome = call(*command, "--timing", profile)
    assert outcome.status == 2
    assert message in outcome.errors
