"""Laws of the replay on generated Programs and memories: conservation, determinism, and what a better memory does."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from small_programs import IDEAL_MEMORY, conv, copy, memories, program

from npu_model.cost.block_jobs import block_jobs
from npu_model.memory.system import Memory, MemorySystem, Pulse
from npu_model.program import DmaWait, Kernel, KernelOperation, KernelWait, Operation, Program
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING
from sim import Beats, Unit, operation_beats, replay
from sim.engine.clock import Clock
from sim.engine.ports import Ports
from sim.engine.terms import Channel

pytestmark = pytest.mark.law

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True)
PULSES = (None, Pulse(320, 80, 50), Pulse(320, 80, 25), Pulse(3999, 1, 2000), Pulse(100, 20, 0))
BOUNDS = st.sampled_from([0, 1, 2, 4, 8])


@st.composite
def convolutions(draw: DrawFn) -> KernelOperation:
    window = draw(st.integers(1, 3))
    return conv(
        Shape3D(draw(st.integers(1, 20)), draw(st.integers(1, 20)), draw(st.sampled_from([8, 16, 24, 32, 64]))),
        Shape3D(draw(st.sampled_from([2, 4, 8])), draw(st.sampled_from([4, 8])), draw(st.sampled_from([8, 16]))),
        draw(st.sampled_from([3, 16, 48, 64])),
        Kernel(window, window),
        weights=16 * draw(st.integers(0, 200)),
        blockdep=draw(st.integers(0, 3)),
    )


OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    convolutions(),
    convolutions(),
    st.integers(1, 100).map(lambda n: copy(16 * n)),
    st.just(DmaWait(0)),
    st.integers(0, 1).map(KernelWait),
)


@st.composite
def programs(draw: DrawFn) -> Program:
    accelerator = draw(st.sampled_from(["ethos-u55-32", "ethos-u55-128", "ethos-u55-256"]))
    return program(*draw(st.lists(OPERATIONS, max_size=5)), words=draw(st.sampled_from([1, 8, 30])), accelerator=accelerator)


MEMORIES = st.builds(
    Memory,
    name=st.just("test"),
    read_latency=st.sampled_from([0, 5, 32, 64, 200]),
    write_latency=st.sampled_from([0, 5, 32, 64]),
    max_reads=BOUNDS,
    max_writes=BOUNDS,
    cycles_per_word=st.sampled_from([Fraction(1), Fraction(2), Fraction(8), Fraction(10, 3)]),
    shared=st.booleans(),
    pulse=st.sampled_from(PULSES),
)
SYSTEMS = st.builds(memories, MEMORIES, MEMORIES)


def looser(bound: int) -> int:
    return bound and bound * 2


def higher_cap(pulse: Pulse | None) -> Pulse | None:
    return pulse and replace(pulse, cap_words=2 * pulse.cap_words)


BETTER = {
    "half the read latency": lambda m: replace(m, read_latency=m.read_latency // 2),
    "half the write latency": lambda m: replace(m, write_latency=m.write_latency // 2),
    "twice the outstanding reads": lambda m: replace(m, max_reads=looser(m.max_reads)),
    "twice the outstanding writes": lambda m: replace(m, max_writes=looser(m.max_writes)),
    "twice the rate": lambda m: replace(m, cycles_per_word=m.cycles_per_word / 2),
    "twice the cap": lambda m: replace(m, pulse=higher_cap(m.pulse)),
    "no gate": lambda m: replace(m, pulse=None),
    "a path for each direction": lambda m: replace(m, shared=False),
}


@EXAMPLES
@given(programs(), SYSTEMS)
def test_every_beat_of_every_block_passes_a_port_once(one: Program, system: MemorySystem) -> None:
    run = replay(one, system)
    commands = Beats(axi1_read=ceil_div(sum(one.words), 2))
    assert run.beats == sum((operation_beats(done.op, run.accelerator, system) for done in run.operations), commands)


@EXAMPLES
@given(programs(), SYSTEMS)
def test_the_mac_array_and_the_output_unit_work_exactly_their_blocks_cycles(one: Program, system: MemorySystem) -> None:
    run = replay(one, system)
    jobs = [job for op in one.kernels for job in block_jobs(op, run.accelerator)]
    assert run.busy.get(Unit.MAC, 0) == sum(step.mac_cycles for job in jobs for step in job.steps)
    assert run.busy.get(Unit.AO, 0) == sum(job.output_cycles for job in jobs)
    assert run.busy.get(Unit.CC, 0) == 0


@EXAMPLES
@given(programs(), SYSTEMS)
def test_operations_finish_in_the_order_of_their_queue_and_after_their_issue(one: Program, system: MemorySystem) -> None:
    run = replay(one, system)
    for kind in (True, False):
        queue = [done for done in run.operations if isinstance(done.op, KernelOperation) is kind]
        assert [done.finished for done in queue] == sorted(done.finished for done in queue)
        assert all(done.issued < done.finished <= run.cycles for done in queue)


TURN = 64
"""Beats of one turn of a channel: 8 transactions of 8."""


@EXAMPLES
@given(programs(), SYSTEMS)
def test_an_ideal_memory_is_never_slower_by_more_than_a_turn_of_a_channel(one: Program, system: MemorySystem) -> None:
    ideal = memories(IDEAL_MEMORY, IDEAL_MEMORY)
    assert replay(one, ideal).cycles <= replay(one, system).cycles + TURN


@pytest.mark.parametrize("change", BETTER)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(one=programs(), system=SYSTEMS, port=st.integers(0, 1))
def test_a_better_memory_never_makes_a_program_slower_by_more_than_a_twentieth(
    change: str, one: Program, system: MemorySystem, port: int
) -> None:
    """Promise 6, with the tolerance that scheduling anomalies need.

    Queues with turns are known to have anomalies: a transfer that is ready earlier may take a turn from one that matters more,
    or use up a period of the timing adapter's cap just before it. In 6,500 random Programs of at most five operations with one
    parameter improved, 52 (0.8 %) became slower, at worst by 4.8 % or 800 cycles (two periods of the cap); of the
    measured networks, under sweeps of the flash, the worst loses 29 of 405,239 cycles (0.007 %; test_replay_fvp.py).
    """
    ports = list(system.ports)
    ports[port] = BETTER[change](ports[port])
    better = replace(system, ports=(ports[0], ports[1]))
    assert replay(one, better).cycles <= 1.05 * replay(one, system).cycles + 2 * 400


def stream(memory: Memory, beats: int, *, write: bool) -> int:
    env = Clock()
    ports = Ports(env, memories(memory), DEFAULT_TIMING)
    event = ports.write(1, Channel.OFM, (beats,)) if write else ports.read(1, Channel.WEIGHTS, (beats,))
    env.run(until=event)
    return env.cycle


@pytest.mark.parametrize("change", BETTER)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(memory=MEMORIES, beats=st.integers(1, 2000), write=st.booleans())
def test_a_better_memory_never_makes_a_single_stream_slower(change: str, memory: Memory, beats: int, *, write: bool) -> None:
    assert stream(BETTER[change](memory), beats, write=write) <= stream(memory, beats, write=write)


SCRIPT = """
from small_programs import conv, copy, memories, memory, program
from npu_model.shapes import Shape3D
from sim import replay
from sim.views.recorder import TRACED, EventRecorder
from npu_model.program import DmaWait
from npu_model.compiled.network import CompiledNetwork
from sim import replay_network
from sim.views.trace import trace_json
operations = [copy(4096), DmaWait(0), conv(Shape3D(30, 7, 40), Shape3D(4, 4, 16), 48, weights=4096)]
recorder = EventRecorder(TRACED)
system = memories(memory(latency=16, outstanding=2), memory(latency=40, outstanding=2))
print(trace_json(replay_network(CompiledNetwork((program(*operations),), 0, (), ()), system, [recorder]), recorder))
"""


def test_the_trace_of_a_replay_is_the_same_under_every_hash_seed() -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(tests.parent)])
    runs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "4242")
    ]
    assert runs[0]
    assert runs[0] == runs[1] == runs[2]
