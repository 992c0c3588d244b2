"""Blocks chosen for all jobs together: the best of all combinations, what neighbours share, and replays of real schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import DEFAULT, network
from small_programs import conv

from cascader.ethosu import block_chain
from cascader.ethosu.block_chain import BlockOption, choose_together, shared_cycles
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.kernel_flow import kernel_flow, kernel_load, operation_load
from cascader.ethosu.lowering import lower
from cascader.ethosu.schedule import Schedule
from cascader.ethosu.source import Sources
from npu_model.accelerator import Accelerator, accelerator
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D
from sim import quick_replay
from testbed.configs import load_timing_adapter
from testbed.memory_options import DEFAULT_TIMING_ADAPTER

DEVICE = accelerator(DEFAULT)
SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
STAGED = Sources.staged(SYSTEM)
BLOCK, SHRAM = Shape3D(8, 8, 16), Shram(10, 12)
KERNEL = conv(Shape3D(8, 8, 16), BLOCK)


def option(cycles: int) -> BlockOption:
    """A block of which nothing but its cycles is asked."""
    return BlockOption(BLOCK, SHRAM, cycles, kernel_load(()), STAGED, 0)


Chain = list[list[BlockOption]]
Savings = dict[tuple[int, int], int]


@st.composite
def chains(draw: st.DrawFn) -> tuple[Chain, Savings]:
    """Up to five jobs of up to three options, some of them on the CPU; cycles that options of neighbours save by identity."""
    some = st.lists(st.integers(1, 30).map(option), max_size=3)
    jobs = draw(st.lists(some, max_size=5))
    pairs = [(id(one), id(two)) for ones, twos in pairwise(jobs) for one, two in product(ones, twos)]
    return jobs, {pair: draw(st.integers(0, 30)) for pair in pairs}


def cycles_of(chosen: Sequence[BlockOption | None], savings: Savings) -> int:
    shared = sum(savings[id(one), id(two)] for one, two in pairwise(chosen) if one is not None and two is not None)
    return sum(one.cycles for one in chosen if one is not None) - shared


@settings(max_examples=300)
@given(chains())
def test_the_choice_is_as_good_as_the_best_of_all_combinations(case: tuple[Chain, Savings]) -> None:
    jobs, savings = case

    def saved(before: tuple[KernelOperation, BlockOption], after: tuple[KernelOperation, BlockOption], _: Accelerator) -> int:
        return savings[id(before[1]), id(after[1])]

    with patch.object(block_chain, "shared_cycles", saved):
        chosen = choose_together([KERNEL if options else None for options in jobs], jobs, DEVICE)
    for options, one in zip(jobs, chosen, strict=True):
        assert any(one is other for other in options) if options else one is None
    assert cycles_of(chosen, savings) == min(cycles_of(every, savings) for every in product(*(options or [None] for options in jobs)))


def test_no_jobs_have_no_blocks() -> None:
    assert choose_together([], [], DEVICE) == []


SHALLOW, DEEP = Shape3D(4, 8, 16), Shape3D(8, 8, 16)
FIRST = conv(Shape3D(16, 16, 16), DEEP, weights=256)
SECOND = conv(Shape3D(16, 16, 16), DEEP, weights=256, ifm_base=1 << 16, ofm_base=1 << 17)
"""Reads what the first one writes, in the same order."""
APART = replace(SECOND, ifm=replace(SECOND.ifm, tiles=replace(SECOND.ifm.tiles, bases=(1 << 18, 0, 0, 0))))
"""Reads something else."""
TURNED = conv(Shape3D(8, 8, 16), Shape3D(8, 8, 16), 64, weights=1024, ifm_base=1 << 16, ofm_base=1 << 17)
"""Reads the first one's bytes in another shape, for which all of them must be stored."""


def alone(operation: KernelOperation, block: Shape3D, shram: Shram = SHRAM) -> BlockOption:
    """What a cost model says of the operation in this block."""
    load = operation_load(replace(operation, block=block, shram=shram), DEVICE, (), STAGED.maps.burst, STAGED.constants.burst)
    return BlockOption(block, shram, int(kernel_flow(load, STAGED, led=True).cycles) + 32, load, STAGED, 32)


@pytest.mark.parametrize("block", [SHALLOW, DEEP], ids=str)
def test_neighbours_of_different_partitions_share_nothing(block: Shape3D) -> None:
    assert shared_cycles((FIRST, alone(FIRST, block)), (APART, alone(APART, block)), DEVICE) > 0
    assert shared_cycles((FIRST, alone(FIRST, block)), (APART, alone(APART, block, Shram(10, 14))), DEVICE) == 0


@pytest.mark.parametrize("block", [SHALLOW, DEEP], ids=str)
def test_a_kernel_that_waits_for_all_blocks_of_the_one_before_shares_nothing(block: Shape3D) -> None:
    assert shared_cycles((FIRST, alone(FIRST, block)), (TURNED, alone(TURNED, block)), DEVICE) == 0


@pytest.mark.parametrize(("one", "two"), list(product((SHALLOW, DEEP), repeat=2)), ids=str)
def test_a_reader_shares_at_most_what_a_kernel_does_that_reads_something_else(one: Shape3D, two: Shape3D) -> None:
    """Which is what the pipeline of the first drains in, and never all of the second."""
    before = FIRST, alone(FIRST, one)
    reader, other = (shared_cycles(before, (operation, alone(operation, two)), DEVICE) for operation in (SECOND, APART))
    assert 0 < reader <= other < alone(APART, two).cycles
