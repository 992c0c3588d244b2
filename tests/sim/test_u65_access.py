"""The U65's way to a memory that answers late: each rule of :class:`npu_model.accelerator.Access` shows in the cycles."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace
from small_programs import conv, max_pool, program

from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.block_jobs import block_jobs
from npu_model.memory.system import Memory, MemorySystem
from npu_model.program import Kernel, Program
from npu_model.shapes import Shape3D
from npu_model.timing import TimingParameters
from sim.engine.engine import run_engine
from sim.engine.terms import fetch_words

ONE, TWO = accelerator("ethos-u65-256"), accelerator("ethos-u65-512")


def late(latency: int, max_writes: int = 0) -> MemorySystem:
    """Constants behind port 1, which answers after ``latency`` cycles; all else is near."""
    near = Memory("near", 1, 1, max_writes=max_writes, burst_bytes=128)
    return MemorySystem("late", 1, (near, Memory("far", latency, 1, burst_bytes=128)), (1, 0, 0, 0, 0, 0, 0, 0), command_port=0)


def cycles(one: Program, device: Accelerator, system: MemorySystem, **access: object) -> int:
    return run_engine(one, replace(device, access=replace(device.access, **access)), system).env.cycle  # type: ignore[arg-type]


def heavy(weights: int) -> Program:
    """A kernel of one block and as many bytes of weights."""
    return replace(program(conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 32, weights=weights)), accelerator=ONE.name)


def test_a_command_fetch_is_eight_words_of_the_port() -> None:
    assert [fetch_words(accelerator(name)) for name in ("ethos-u55-32", "ethos-u65-256")] == [16, 32]


@pytest.mark.parametrize("bursts", [1, 3, 12])
def test_so_many_transactions_of_a_core_s_weights_are_under_way_and_no_more(bursts: int) -> None:
    """24 bursts of weights take 24 / bursts round trips to the memory."""
    none, all_at_once = cycles(heavy(0), ONE, late(1000)), cycles(heavy(24 * 128), ONE, late(1000), weight_bursts=24)
    found = cycles(heavy(24 * 128), ONE, late(1000), weight_bursts=bursts)
    assert found - all_at_once == pytest.approx((24 // bursts - 1) * 1000, rel=0.1)
    assert all_at_once - none == pytest.approx(1000, rel=0.2)


def test_a_step_s_weights_are_on_their_way_while_those_of_the_step_before_are() -> None:
    """Three steps of 32 channels: a slot at a time costs two further round trips."""
    one = replace(program(conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 96, weights=480)), accelerator=ONE.name)
    assert cycles(one, ONE, late(1000), weight_bursts=0) - cycles(one, ONE, late(1000)) > 900


def test_both_slots_of_the_input_buffer_are_asked_for_at_once() -> None:
    """Two steps of 32 channels from the late memory: one round trip, not two."""
    one = replace(program(conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 64)), accelerator=ONE.name)
    system = replace(late(1000), region_ports=(0, 1, 1, 0, 0, 0, 0, 0))
    assert cycles(one, ONE, system, ifm_ahead=False) - cycles(one, ONE, system) == pytest.approx(1000, rel=0.05)


def test_the_input_buffer_takes_eight_bytes_a_cycle_of_sixteen() -> None:
    """A pool that reads far more than it writes or works: twice the cycles of a buffer that takes words as they come."""
    one = replace(program(conv(Shape3D(16, 16, 16), Shape3D(16, 16, 16), 32)), accelerator=ONE.name)
    words = sum(sum(read.runs) for job in block_jobs(one.kernels[0], ONE) for step in job.steps for read in step.fetches)
    assert ONE.ifm_cycles_per_word() == 2
    assert accelerator("ethos-u55-256").ifm_cycles_per_word() == 0
    bound = [cycles(one, ONE, late(1), ifm_bytes_per_cycle=size) for size in (8, 4, 2)]
    assert bound == sorted(bound)
    assert bound[2] >= 8 * words > bound[0]


def test_a_kernel_starts_behind_its_dependencies() -> None:
    one = replace(program(conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 32)), accelerator=ONE.name)
    assert cycles(one, ONE, late(1), kernel_start_cycles=100) - cycles(one, ONE, late(1), kernel_start_cycles=0) == 100


def test_the_windows_of_a_kernel_share_the_slot_of_their_ifm_block() -> None:
    op = conv(Shape3D(4, 4, 16), Shape3D(4, 4, 16), 40, Kernel(10, 1))
    for device, expected in ((ONE, [False, True, False, True]), (accelerator("ethos-u55-256"), [False] * 4)):
        (job,) = block_jobs(op, device)
        assert [step.continues for step in job.steps] == expected
        assert all(step.fetches for step in job.steps)


def test_two_cores_have_twice_as_many_weights_under_way() -> None:
    halves = conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 32, weights=12 * 128)
    (where,) = halves.weights
    two = replace(halves, weights=(where, replace(where, start=where.start, end=where.end)), scales=halves.scales * 2)
    one = replace(program(two), accelerator=TWO.name)
    assert cycles(one, TWO, late(1000)) == pytest.approx(cycles(one, TWO, late(1000), weight_bursts=24), rel=0.02)


def test_a_kernel_that_keeps_its_channels_fills_both_cores_input_buffers_at_once() -> None:
    """A pool whose windows are single elements and take no time: it reads in half the time of buffers that each take all."""
    kept, free = (
        program(max_pool(Shape3D(64, 64, 32), Shape3D(8, 16, 32)), accelerator=TWO.name),
        TimingParameters(pool_floor=1, pool_passes=False),
    )
    words = sum(sum(read.runs) for job in block_jobs(kept.kernels[0], TWO) for step in job.steps for read in step.fetches)
    assert [device.ifm_cycles_per_word(own_channels=True) for device in (ONE, TWO)] == [2, 0]
    assert TWO.ifm_cycles_per_word() == 2
    shared = replace(TWO, access=replace(TWO.access, own_channels=False))
    apart = Memory("apart", 1, 1, burst_bytes=128, shared=False)
    system = MemorySystem("apart", 1, (apart, apart), (0,) * 8, command_port=1)
    ours, theirs = (run_engine(kept, device, system, timing=free).env.cycle for device in (TWO, shared))
    assert ours < 1.3 * words < 2 * words <= theirs


@pytest.mark.parametrize(("depth", "factor"), [(8, 2), (16, 1), (24, Fraction(4, 3)), (32, 1)])
def test_the_second_core_s_output_unit_rests_where_a_block_ends_with_eight_channels(depth: int, factor: Fraction) -> None:
    op = conv(Shape3D(8, 8, depth), Shape3D(8, 8, depth), 16)
    alone = replace(TWO, access=replace(TWO.access, own_channels=False))
    (ours, shared) = (sum(job.output_cycles for job in block_jobs(op, device)) for device in (TWO, alone))
    assert ours == factor * shared
