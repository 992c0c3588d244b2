"""The flow of one kernel: hand-made blocks, laws, and the engine's cycles for the same kernel alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_programs import ARENA, CONSTANTS, conv, max_pool, memories, memory, program

from cascader.ethosu.kernel_flow import Flow, Source, kernel_flow, kernel_load, operation_load
from npu_model.accelerator import accelerator
from npu_model.block_jobs import BlockJob, Read, Step
from npu_model.program import Kernel, KernelOperation
from npu_model.shapes import Shape3D
from sim import replay

DEVICE = accelerator("ethos-u55-128")
IDEAL = Source(1.0, 0)


def read(region: int, words: int) -> tuple[Read, ...]:
    return (Read(region, (words,)),) if words else ()


def step(fetch: int, weights: int, mac: int) -> Step:
    return Step(read(ARENA, fetch), read(CONSTANTS, weights), mac)


def block(*steps: Step, output: int = 0, store: int = 0, scales: int = 0) -> BlockJob:
    return BlockJob((Shape3D(0, 0, 0), Shape3D(1, 1, 1)), steps, read(CONSTANTS, scales), output, (store,) if store else ())


def run(jobs: list[BlockJob], arena: Source, constants: Source, *, led: bool = False) -> Flow:
    return kernel_flow(kernel_load(jobs), arena, constants, led=led)


def test_one_block_goes_through_all_units_one_after_the_other() -> None:
    """10 words in, beside 6 of weights and scales at 2 cycles each; 30 cycles of MAC, 7 of output, 4 words out."""
    assert run([block(step(10, 5, 30), output=7, store=4, scales=1)], IDEAL, Source(2.0, 0)) == Flow(12 + 30 + 7 + 4, 30 + 7 + 4)


def test_latency_comes_before_the_first_word_of_each_fetch() -> None:
    assert run([block(step(10, 0, 30))], Source(1.0, 32), IDEAL).cycles == 32 + 10 + 30


def test_the_slowest_unit_sets_the_pace_of_many_blocks() -> None:
    """Of 20 blocks, fetched in 10, computed in 25, put out in 7 and stored in 4 cycles, only the ends add to the MAC array's."""
    assert run([block(step(10, 0, 25), output=7, store=4)] * 20, IDEAL, IDEAL).cycles == 10 + 20 * 25 + 7 + 4


def test_fetches_run_two_steps_ahead_of_the_mac_array_and_no_more() -> None:
    """Fetches of 10 cycles: the third begins when the first step is computed, which leaves the tail after the last one."""
    flow = run([block(step(10, 0, 100))] * 3, IDEAL, IDEAL)
    assert flow == Flow(10 + 3 * 100, (10 + 3 * 100) - (110 + 10))


def test_weights_that_are_there_already_save_the_first_two_steps_of_the_decoder() -> None:
    """Weights of 50 cycles a step bind; led, only the third step waits for them, from the end of the first step on."""
    jobs = [block(step(0, 50, 10))] * 3
    assert run(jobs, IDEAL, IDEAL).cycles == 3 * 50 + 10
    assert run(jobs, IDEAL, IDEAL, led=True).cycles == 10 + 50 + 10


@st.composite
def kernels(draw: st.DrawFn) -> list[BlockJob]:
    words = st.integers(0, 40)
    steps = st.lists(st.builds(step, words, words, st.integers(1, 60)), min_size=1, max_size=3)
    one = st.builds(lambda some, output, store, scales: block(*some, output=output, store=store, scales=scales), steps, words, words, words)
    return draw(st.lists(one, min_size=1, max_size=8))


def loads(jobs: list[BlockJob]) -> tuple[int, int, int, int, int]:
    """What each unit has to do on its own at a word a cycle: fetch, decode, multiply, put out, store."""
    steps = [step for job in jobs for step in job.steps]
    fetch = sum(sum(r.runs) for step in steps for r in step.fetches)
    decode = sum(sum(r.runs) for step in steps for r in step.weights) + sum(sum(r.runs) for job in jobs for r in job.scales)
    return fetch, decode, sum(s.mac_cycles for s in steps), sum(job.output_cycles for job in jobs), sum(sum(job.writes) for job in jobs)


@settings(max_examples=100)
@given(kernels(), st.integers(1, 3))
def test_the_load_of_a_kernel_counts_every_block_however_often_it_is_repeated(jobs: list[BlockJob], times: int) -> None:
    fetch, decode, _, _, store = (times * load for load in loads(jobs))
    load = kernel_load(jobs * times)
    assert (load.maps, load.constants, len(load.blocks)) == (fetch + store, decode, times * len(jobs))
    assert load.blocks == kernel_load([replace(job) for job in jobs * times]).blocks


@settings(max_examples=200)
@given(kernels(), st.booleans())
def test_a_kernel_takes_at_least_its_busiest_unit_and_at_most_all_units_in_turn(jobs: list[BlockJob], led: bool) -> None:  # noqa: FBT001  # drawn
    flow, units = run(jobs, IDEAL, IDEAL, led=led), loads(jobs)
    assert max(*units[2:], units[0], 0 if led else units[1]) <= flow.cycles <= sum(units)
    assert 0 <= flow.tail <= flow.cycles


@settings(max_examples=200)
@given(kernels(), st.integers(0, 30), st.sampled_from([1.0, 2.5, 7.0]))
def test_slower_memories_never_make_a_kernel_faster_and_led_weights_never_slower(jobs: list[BlockJob], latency: int, rate: float) -> None:
    quick, slow = run(jobs, IDEAL, IDEAL), run(jobs, Source(1.0, latency), Source(rate, latency))
    assert quick.cycles <= slow.cycles
    assert run(jobs, Source(1.0, latency), Source(rate, latency), led=True).cycles <= slow.cycles


OPERATIONS: dict[str, KernelOperation] = {
    "1x1, MAC array binds": conv(Shape3D(16, 16, 64), Shape3D(8, 8, 32), 64, weights=4096),
    "3x3, MAC array binds": conv(Shape3D(16, 16, 32), Shape3D(8, 8, 32), 32, Kernel(3, 3), weights=9216),
    "1x1, output unit binds": conv(Shape3D(16, 16, 16), Shape3D(4, 8, 16), 16, weights=256),
    "1x1, weights bind": conv(Shape3D(4, 4, 128), Shape3D(4, 4, 32), 128, weights=16384),
    "1x1, weights read for each of four blocks": conv(Shape3D(8, 8, 64), Shape3D(4, 4, 64), 64, weights=4096),
    "pooling, fetches bind": max_pool(Shape3D(8, 8, 32), Shape3D(4, 4, 32), Kernel(2, 2, 2, 2)),
    "one block": conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 16, weights=256),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("latency", "home"), list(product((0, 32), (1, 4))), ids=str)
def test_the_engine_takes_exactly_as_long_for_the_kernel_alone_and_the_latency_of_its_last_store(
    name: str, latency: int, home: int
) -> None:
    """Memories without bounds on what is outstanding; the flow ends with the last word sent, the engine when it has arrived."""
    sram, flash = memory(latency), memory(2 * latency, rate=Fraction(home))
    (alone,) = replay(program(OPERATIONS[name]), memories(sram, flash)).operations
    flow = kernel_flow(operation_load(OPERATIONS[name], DEVICE), Source(1.0, latency), Source(float(home), 2 * latency))
    assert flow.cycles + latency == alone.finished - alone.issued
