"""The fast recurrence is the engine, to the cycle: on generated Programs, memories and timing parameters, and on real networks."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from asked_for import system_said
from cascades import cascade, cuts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from reference_data import shared_data
from scheduling import schedule
from small_programs import ARENA, CONSTANTS, IDEAL, INT8, conv, copy, feature_map, max_pool, memories, memory, program
from test_replay_properties import MEMORIES, programs

import sim.fast.compiled
from cascader.ethosu.codegen.lowering import lower
from cascader.frontends.vela.compiler import compile_network
from cascader.frontends.vela.compiler_options import CompilerOptions
from npu_model.accelerator import accelerator_names
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.memory.system import Memory, MemorySystem, Pulse
from npu_model.memory.timing_adapter import profile
from npu_model.native import native
from npu_model.program import (
    ByteRange,
    DataType,
    DmaWait,
    ElementwiseKind,
    Kernel,
    KernelWait,
    Layout,
    Operation,
    OperationKind,
    Program,
    Shram,
)
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from sim import counted_replay, quick_cycles, quick_replay, replay, replay_network

pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(
        native("sim") is None, reason="the core was not built, or is switched off: the engine would be compared with itself"
    ),
]

EVERYTHING = "NPU_TESTBED_ALL" in os.environ
SLOW = pytest.mark.skipif(not EVERYTHING, reason="takes minutes: set NPU_TESTBED_ALL to run it")
FEW = 40 if EVERYTHING else 6
MANY = 3000 if EVERYTHING else 150

SWITCHES: dict[str, list[Any]] = {
    "pool_floor": [4],
    "pool_passes": [False],
    "decoder_cycles_per_channel": [0, 7],
    "depthwise_delays": [False],
    "decodes_streams": [False],
    "output_scale": [Fraction(0), Fraction(7, 6)],
    "output_start_cycles": [5],
    "kept_ifm_blocks": [0, 8],
    "buffer_slots": [1, 3],
    "kernel_start_cycles": [1, 200],
    "blockdep": [BlockdepRule.IGNORED, BlockdepRule.DRAINED],
    "drain_responses": [0, 3],
    "posted_writes": [False],
    "shram_drains": [False],
    "weights_ahead": [False],
    "weights_at_once": [1, 300],
    "command_cycles_per_word": [1, 3],
    "ifm_burst_divisor": [1, 8],
    "grant": [1, 3, 1024],
    "lookahead": [0, 16],
    "shared_cap": [False],
    "sliding_cap": [False],
    "aligned_bursts": [False],
}
"""Values of every timing parameter beside its default."""

DEVICES = accelerator_names()

WILD_MEMORIES = st.builds(
    Memory,
    name=st.just("wild"),
    read_latency=st.sampled_from([0, 1, 7, 33]),
    write_latency=st.sampled_from([0, 1, 16]),
    max_reads=st.sampled_from([0, 1, 2, 8]),
    max_writes=st.sampled_from([0, 1, 8]),
    burst_bytes=st.sampled_from([8, 64, 128]),
    cycles_per_word=st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(7, 5), Fraction(4)]),
    shared=st.booleans(),
    pulse=st.sampled_from([None, Pulse(9, 1, 8), Pulse(1, 0, 1), Pulse(40, 3, 0), Pulse(320, 80, 50), Pulse(700, 1, 90)]),
)
"""Memories of every kind of limit, some of which no chip has: rates above a word a cycle, periods shorter than a transaction."""


@st.composite
def wild_operations(draw: DrawFn) -> Operation:
    """Kernels of several kinds, some with NHWC maps, weights staged in the arena or another SHRAM partition; copies of any alignment."""
    kind = draw(st.sampled_from(["conv", "conv", "pool", "add", "copy", "copy", "lut", "wait"]))
    if kind in ("copy", "lut"):
        start, length = 8 * draw(st.integers(0, 40)), 8 * draw(st.sampled_from([1, 2, 31, 33, 64, 200]))
        return replace(copy(0, to_shram=kind == "lut"), source=ByteRange(CONSTANTS, start, start + length))
    if kind == "wait":
        return draw(st.sampled_from([DmaWait(0), KernelWait(0), KernelWait(1)]))
    ofm = Shape3D(draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.sampled_from([8, 16, 40])))
    block = Shape3D(draw(st.sampled_from([1, 2, 4])), 4, draw(st.sampled_from([8, 16])))
    if kind == "pool":
        op = max_pool(ofm, block, Kernel(2, 2))
    else:
        op = conv(
            ofm, block, draw(st.sampled_from([3, 16, 72])), Kernel(draw(st.sampled_from([1, 3])), 1), weights=16 * draw(st.integers(0, 60))
        )
    if kind == "add":
        other = feature_map(replace(ofm, depth=1) if draw(st.booleans()) else ofm, base=1 << 14)
        op = replace(op, kind=OperationKind.ELEMENTWISE, elementwise=ElementwiseKind.ADD, weights=(), kernel=Kernel())
        op = replace(op, ifm=feature_map(ofm, 1 << 12), ifm2=other)
    if draw(st.booleans()):
        op = replace(op, ofm=feature_map(ofm, draw(st.integers(0, 40)), Layout.NHWC, DataType(16, signed=True)))
    if draw(st.booleans()):
        op = replace(op, ifm=feature_map(op.ifm.shape, draw(st.integers(0, 40)), Layout.NHWC, INT8))
    if op.weights and draw(st.booleans()):
        op = replace(op, weights=(replace(op.weights[0], region=ARENA),))
    return replace(op, blockdep=draw(st.integers(0, 3)), shram=draw(st.sampled_from([Shram(10, 12), Shram(12, 14)])))


@st.composite
def wild_runs(draw: DrawFn) -> tuple[Program, MemorySystem, TimingParameters]:
    """A Program, memories (at times one for all), and timing parameters of which up to four differ from the defaults."""
    operations = draw(st.lists(wild_operations(), max_size=9))
    one = program(*operations, words=draw(st.sampled_from([1, 7, 40])), accelerator=draw(st.sampled_from(DEVICES)))
    system = memories(draw(WILD_MEMORIES), draw(WILD_MEMORIES))
    if draw(st.booleans()):
        system = replace(system, region_ports=(0,) * 8, command_port=draw(st.integers(0, 1)))
    names = draw(st.lists(st.sampled_from(sorted(SWITCHES)), max_size=4, unique=True))
    return one, system, replace(DEFAULT_TIMING, **{name: draw(st.sampled_from(SWITCHES[name])) for name in names})


def assert_equal(one: Program, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> None:
    """Cycles, beats of the ports, times of the operations and all that is counted are those of the engine."""
    slow, fast = replay(one, system, timing=timing), quick_replay(one, system, timing)
    assert fast.cycles == slow.cycles
    assert fast.beats == slow.beats
    assert {op.index: (op.issued, op.finished) for op in slow.operations} == {i: (t.issued, t.finished) for i, t in fast.times.items()}
    assert counted_replay(one, system, timing) == slow


@settings(max_examples=FEW)
@given(wild_runs())
def test_without_the_core_the_engine_answers(run: tuple[Program, MemorySystem, TimingParameters]) -> None:
    fast = quick_replay(*run)
    with patch.object(sim.fast.compiled, "_CORE", None):
        slow = quick_replay(*run)
    assert (fast, list(fast.times)) == (slow, list(slow.times))


@settings(max_examples=MANY)
@given(programs(), st.builds(memories, MEMORIES, MEMORIES))
def test_the_recurrence_equals_the_engine_on_generated_programs(one: Program, system: MemorySystem) -> None:
    assert_equal(one, system)


@settings(max_examples=MANY)
@given(wild_runs())
def test_the_recurrence_equals_the_engine_where_everything_contends(run: tuple[Program, MemorySystem, TimingParameters]) -> None:
    assert_equal(*run)


def test_every_timing_parameter_has_another_value_here() -> None:
    assert set(SWITCHES) == set(TimingParameters.__struct_fields__)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SWITCHES.items() for value in values])
@settings(max_examples=FEW)
@given(one=programs(), system=st.builds(memories, MEMORIES, MEMORIES))
def test_the_recurrence_equals_the_engine_under_every_timing_parameter(
    name: str, value: object, one: Program, system: MemorySystem
) -> None:
    assert_equal(one, system, replace(DEFAULT_TIMING, **{name: value}))


@pytest.mark.parametrize("kept", [0, 7])
@settings(max_examples=FEW)
@given(runs=st.lists(wild_runs(), min_size=2, max_size=3))
def test_a_cache_that_has_forgotten_gives_the_same_cycles(kept: int, runs: list[tuple[Program, MemorySystem, TimingParameters]]) -> None:
    with pytest.MonkeyPatch.context() as replaced:
        replaced.setattr(sim.fast.compiled, "_MOST_BYTES", kept)
        for run in runs:
            assert_equal(*run)


def test_weights_that_are_aligned_differently_are_read_in_other_transactions() -> None:
    op = conv(Shape3D(9, 9, 16), Shape3D(4, 4, 16), weights=640)
    moved = replace(op, weights=(ByteRange(CONSTANTS, 16, 656),))
    slow = memories(memory(), memory(latency=64, outstanding=1))
    assert quick_replay(program(op), slow).cycles != quick_replay(program(moved), slow).cycles


def test_a_response_that_overtakes_another_port_s_is_that_of_its_own_block() -> None:
    """The first kernel stores through a port whose responses take long, the second one through another and does not wait for it."""
    slow, fast = (conv(Shape3D(4, 4, depth), Shape3D(4, 4, 16), ofm_base=1 << 17) for depth in (16, 48))
    slow = replace(slow, ofm=replace(slow.ofm, region=CONSTANTS))
    at_home, abroad = replace(memory(), write_latency=1), replace(memory(), write_latency=4000)
    for rule in BlockdepRule:
        assert_equal(program(slow, fast, slow, fast), memories(at_home, abroad), replace(DEFAULT_TIMING, blockdep=rule))


def test_a_transfer_of_nothing_is_over_at_once() -> None:
    assert_equal(program(copy(0), DmaWait(0), copy(8)), IDEAL)


def test_the_operations_are_timed_in_the_order_in_which_they_finish() -> None:
    run = quick_replay(program(copy(4096), conv(Shape3D(4, 4, 16), Shape3D(4, 4, 16))), IDEAL)
    assert list(run.times) == [1, 0]


def test_absurdly_many_blocks_are_refused() -> None:
    huge = conv(Shape3D(4096, 4096, 16), Shape3D(1, 1, 16))
    with pytest.raises(InputError, match="16777216 OFM blocks"):
        quick_replay(program(huge), IDEAL)


def test_a_window_that_takes_billions_of_steps_is_refused() -> None:
    window = max_pool(Shape3D(64, 64, 16), Shape3D(8, 8, 16), Kernel(9000, 9000))
    for run in (quick_replay, replay):
        with pytest.raises(InputError, match=r"has 81000000 steps of the MAC array: at most 67108864"):
            run(program(window), IDEAL)
    deep = conv(Shape3D(1000, 1000, 16), Shape3D(1, 1, 16), ifm_depth=1 << 16)
    with pytest.raises(InputError, match="has 4096000000 steps"):
        quick_replay(program(deep), IDEAL)


def test_an_unknown_accelerator_is_refused() -> None:
    with pytest.raises(InputError, match="ethos-u99"):
        quick_replay(replace(program(), accelerator="ethos-u99"), IDEAL)


@cache
def compiled(model: str, device: str, optimise: str) -> CompiledNetwork:
    data = (shared_data() / "models" / f"{model}.tflite").read_bytes()
    return read_compiled(compile_network(data, CompilerOptions(device, optimise=optimise, debug_database=False)).compiled)


def assert_networks_equal(network: CompiledNetwork, system: MemorySystem) -> None:
    for one in network.programs:
        assert_equal(one, system)


@pytest.mark.parametrize("adapters", ["u55_high_end", "off"])
@pytest.mark.parametrize("optimise", ["Size", "Performance"])
@pytest.mark.parametrize(("model", "device"), [("resnet8_i8", "ethos-u55-128"), ("ds_cnn_s_i16", "ethos-u55-32")])
def test_the_recurrence_equals_the_engine_on_vela_s_schedules(model: str, device: str, optimise: str, adapters: str) -> None:
    assert_networks_equal(compiled(model, device, optimise), profile(adapters).memory_system())


@pytest.mark.parametrize("adapters", ["u55_high_end", "off"])
def test_the_recurrence_equals_the_engine_on_schedules_with_staged_weights_and_rolling_buffers(adapters: str) -> None:
    system = profile(adapters).memory_system()
    parts = len(schedule("resnet8").network.graph.parts)
    made = [cascade("resnet8", cuts("resnet8", [4], rows), staged=range(0, parts, 2)) for rows in (2, 5)]
    for network in map(lower, (schedule("resnet8"), *made)):
        assert_networks_equal(network, system)
        assert quick_cycles(network, system) == replay_network(network, system).cycles


def every_model() -> list[str]:
    folder = shared_data() / "models"
    return sorted(path.stem for path in folder.glob("*.tflite"))


@SLOW
@pytest.mark.parametrize("optimise", ["Size", "Performance"])
@pytest.mark.parametrize("device", [name for name in accelerator_names() if name.startswith("ethos-u55")])
def test_the_recurrence_equals_the_engine_on_every_model(device: str, optimise: str) -> None:
    systems = [profile(name).memory_system() for name in ("u55_high_end", "off")]
    systems.append(system_said(system_config="Ethos_U55_Deep_Embedded"))
    for number, model in enumerate(every_model()):
        assert_networks_equal(compiled(model, device, optimise), systems[number % len(systems)])
