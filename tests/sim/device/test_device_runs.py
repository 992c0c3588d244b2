"""Runs of a device: the bytes of the functional run, the cycles and counts of the replay, the interrupt at its cycle."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from device_driver import ARENA, AT, CLEAR_IRQ, CONSTANTS, END, IRQ, LIMITS, POWER, RUN, STATE, Bound, bind, random_inputs, words_of
from few_examples import few_cases
from moved_regions import moved
from msgspec.structs import replace
from reference_data import shared_data
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import Program
from npu_model.programmer_registers import event_numbers
from sim import Replay, counted_replay
from sim.functional import run

STREAMS = few_cases(["kws_micronet_m", "rnnoise_INT8", "yolo-fastest_192_face_v4"], [32, 64, 128, 256])
ON_ACTIVE = 35 | 32 << 16
"""PMCCNTR_CFG: from NPU_ACTIVE to NPU_IDLE."""


def adapter() -> MemorySystem:
    return profile("u55_high_end").memory_system()


def only(network: CompiledNetwork) -> Program:
    (program,) = network.programs
    return program


def bound(network: CompiledNetwork, system: MemorySystem | None = None, seed: int = 1) -> Bound:
    """A network in an arena of random bytes, with its inputs."""
    arena = bytearray(np.random.default_rng(5).bytes(network.arena_size))
    place(network, arena, seed)
    program = only(network)
    return bind(program, system or adapter(), words_of(program), arena, burst=0)


def place(network: CompiledNetwork, arena: bytearray, seed: int = 1) -> None:
    for binding, values in zip(network.inputs, random_inputs(network, seed), strict=True):
        arena[binding.address : binding.address + binding.size] = values.tobytes()


def outputs(network: CompiledNetwork, arena: bytearray) -> dict[str, bytes]:
    return {binding.name: bytes(arena[binding.address : binding.address + binding.size]) for binding in network.outputs}


def expected(network: CompiledNetwork, seed: int = 1) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in run(network, random_inputs(network, seed)).items()}


def counted(npu: Bound, network: CompiledNetwork) -> dict[str, int]:
    """All events that a replay counts, four by four, each four in an inference of its own."""
    numbers, found = event_numbers(), {}
    names = [name for name in numbers if name not in ("CYCLE", "NPU_IDLE")]
    for first in range(0, len(names), 4):
        four = names[first : first + 4]
        place(network, npu.arena)
        npu.write(PMCR=7, PMCCNTR_CFG=ON_ACTIVE, PMCNTENSET=0x8000_000F)
        npu.write(**{f"PMEVTYPER{i}": numbers[name] for i, name in enumerate(four)})
        npu.start()
        npu.device.wait()
        assert npu.read("STATUS") & 0xFFFF == END | IRQ
        npu.write(CMD=POWER | CLEAR_IRQ)
        found |= {name: npu.read(f"PMEVCNTR{i}") for i, name in enumerate(four)}
        found["cycles"] = npu.read("PMCCNTR_LO")
    return found


def events(replay: Replay) -> dict[str, int]:
    return replay.pmu() | {"cycles": replay.cycles}


@pytest.mark.law
@pytest.mark.parametrize(("name", "macs"), STREAMS)
def test_a_measured_stream_counts_what_the_replay_counts_and_computes_what_the_functional_run_does(name: str, macs: int) -> None:
    network = read_compiled((shared_data() / "fvp" / "streams" / f"{name}.ethos-u55-{macs}.vela500.tflite").read_bytes())
    npu = bound(network)
    assert counted(npu, network) == events(counted_replay(only(network), adapter()))
    assert outputs(network, npu.arena) == expected(network)


@pytest.mark.law
@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "resnet8"])
def test_a_schedule_counts_what_the_replay_counts_and_computes_what_the_functional_run_does(name: str) -> None:
    network = lower(schedule(name))
    npu = bound(network)
    assert counted(npu, network) == events(counted_replay(only(network), adapter()))
    assert outputs(network, npu.arena) == expected(network)


def test_the_interrupt_rises_once_at_the_last_cycle_of_the_replay() -> None:
    network = lower(schedule("tiny_residual"))
    npu, cycles = bound(network), counted_replay(only(network), adapter()).cycles
    npu.start()
    assert npu.device.idle_for == cycles
    npu.device.advance(cycles - 1)
    assert npu.read("STATUS") == STATE
    assert not npu.bus.raised
    npu.device.advance(1)
    assert npu.read("STATUS") == END | IRQ | 0xFFFF << 16
    assert npu.read("QREAD") == npu.read("QSIZE") == len(npu.stream)
    npu.device.advance(10 * cycles)
    assert npu.bus.interrupts == 1
    npu.write(CMD=POWER | CLEAR_IRQ)
    assert not npu.bus.raised
    assert npu.read("STATUS") == END | 0xFFFF << 16
    npu.write(CMD=POWER | 0xFFFF << 16)
    assert npu.read("STATUS") == END


def test_memory_qread_and_counters_advance_with_time() -> None:
    network = lower(schedule("tiny_residual"))
    npu, replay = bound(network), counted_replay(only(network), adapter())
    npu.write(PMCR=7, PMCCNTR_CFG=ON_ACTIVE, PMCNTENSET=0x8000_000F, PMEVTYPER0=0x30, PMEVTYPER1=0x82, PMEVTYPER2=0x11, PMEVTYPER3=0x20)
    npu.start()
    seen = []
    before = bytes(npu.arena)
    for part in range(1, 11):
        npu.device.advance(replay.cycles * part // 10 - npu.device.cycle)
        seen.append([npu.read("QREAD"), *(npu.read(f"PMEVCNTR{i}") for i in range(3)), npu.read("PMCCNTR_LO")])
    assert bytes(npu.arena) != before
    assert all(first < last for first, last in zip(seen[0], seen[-1], strict=True))
    assert all(a <= b for earlier, later in pairwise(seen) for a, b in zip(earlier, later, strict=True))
    assert npu.read("PMEVCNTR2") == npu.read("PMCCNTR_LO") == replay.cycles
    npu.device.advance(1000)
    assert npu.read("PMEVCNTR2") == replay.cycles + 1000
    assert npu.read("PMEVCNTR3") == 1000
    assert npu.read("PMCCNTR_LO") == replay.cycles


def test_however_the_clock_runs_the_end_is_the_same() -> None:
    network = lower(schedule("tiny_residual"))
    once, often = bound(network), bound(network)
    for npu in (once, often):
        npu.write(PMCR=7, PMCNTENSET=0x8000_000F, PMEVTYPER0=0x30, PMEVTYPER1=0x82, PMEVTYPER2=0x22, PMEVTYPER3=0x45)
        npu.start()
    while often.device.is_running:
        often.device.advance(977)
    once.device.advance(often.device.cycle)
    for name in ("STATUS", "QREAD", "PMEVCNTR0", "PMEVCNTR1", "PMEVCNTR2", "PMEVCNTR3", "PMCCNTR_LO"):
        assert once.read(name) == often.read(name), name
    assert once.arena == often.arena


def test_two_devices_beside_each_other_do_not_know_of_each_other() -> None:
    first, second = lower(schedule("tiny_residual")), lower(schedule("ds_cnn"))
    one, two = bound(first), bound(second, seed=2)
    one.start()
    two.device.advance(123)
    two.start()
    while one.device.is_running or two.device.is_running:
        one.device.advance(1000)
        two.device.advance(700)
    assert outputs(first, one.arena) == expected(first)
    assert outputs(second, two.arena) == expected(second, 2)
    assert (one.bus.interrupts, two.bus.interrupts) == (1, 1)


def test_two_devices_share_one_memory() -> None:
    network = lower(schedule("tiny_residual"))
    one, program, size = bound(network), only(network), network.arena_size
    arena = bytearray(2 * size)
    place(network, arena)
    upper = bytearray(size)
    place(network, upper, 2)
    arena[size:] = upper
    first, second = (bind(program, adapter(), one.stream, arena, burst=0) for _ in range(2))
    second.write(BASEP2=ARENA + size, BASEP4=ARENA + size)
    for npu in (first, second):
        npu.start()
    while first.device.is_running or second.device.is_running:
        first.device.advance(500)
        second.device.advance(500)
    assert outputs(network, arena[:size]) == expected(network)
    assert outputs(network, arena[size:]) == expected(network, 2)


def test_regions_of_any_number_lie_at_their_base_pointers() -> None:
    """Addresses in regions 3 to 7, and absolute ones behind a base of 0, are the same bytes and the same cycles."""
    network = lower(schedule("tiny_residual"))
    program = only(network)
    usual = bound(network)
    usual.start()
    usual.device.wait()
    for regions, bases in (({0: 5, 1: 7, 2: 7}, {5: CONSTANTS, 7: ARENA}), ({0: 3, 1: 3, 2: 3}, {3: 0})):
        shift = {0: CONSTANTS, 1: ARENA, 2: ARENA} if bases == {3: 0} else {}
        changed = moved(program, regions, shift)
        arena = bytearray(network.arena_size)
        place(network, arena)
        npu = bind(replace(changed, regions=program.regions), adapter(), words_of(changed), arena, burst=0)
        npu.write(**{f"BASEP{2 * region}": base for region, base in bases.items()})
        npu.write(REGIONCFG=2 << 10)  # the constants' port, if they have a region of their own
        npu.start()
        npu.device.wait()
        assert npu.read("STATUS") & 0xFFFF == END | IRQ, npu.device.complaint
        assert outputs(network, arena) == expected(network)
        if not shift:
            assert npu.device.cycle == usual.device.cycle


def test_region_and_axi_limit_registers_decide_ports_and_transactions() -> None:
    network = lower(schedule("ds_cnn"))
    npu, cycles = bound(network), {}
    for name, limit in (("driver", LIMITS), ("one", 0)):
        npu.write(**{f"AXI_LIMIT{i}": limit for i in range(4)})
        start = npu.device.cycle
        npu.start()
        cycles[name] = npu.device.wait()
        assert npu.device.cycle - start == cycles[name]
        npu.write(CMD=POWER | CLEAR_IRQ)
    assert cycles["one"] > cycles["driver"]
    everything_on_axi0 = replace(adapter(), region_ports=(0,) * 8, command_port=0)
    npu.write(REGIONCFG=0, QCONFIG=0, **{f"AXI_LIMIT{i}": LIMITS for i in range(4)})
    npu.start()
    assert npu.device.wait() == counted_replay(only(network), everything_on_axi0).cycles


def test_an_overflow_raises_the_interrupt_where_it_is_asked_for() -> None:
    network = lower(schedule("tiny_residual"))
    npu = bound(network)
    npu.write(PMCR=7, PMCNTENSET=1 << 31 | 1, PMEVTYPER0=0x11, PMEVCNTR0=0xFFFF_FF00, PMINTSET=1)
    npu.device.advance(0xFF)
    assert (npu.read("PMEVCNTR0"), npu.read("PMOVSSET"), npu.bus.raised) == (0xFFFF_FFFF, 0, False)
    npu.device.advance(1)
    assert (npu.read("PMEVCNTR0"), npu.read("PMOVSSET"), npu.bus.raised) == (0, 1, True)
    npu.write(PMOVSCLR=1, CMD=POWER | CLEAR_IRQ)
    assert (npu.read("PMOVSSET"), npu.bus.raised) == (0, False)
    npu.write(PMCCNTR_LO=0xFFFF_FFFF, PMCCNTR_HI=0xFFFF)
    npu.device.advance(2)
    assert (npu.read("PMCCNTR_HI"), npu.read("PMCCNTR_LO"), npu.read("PMOVSCLR") >> 31, npu.bus.raised) == (0, 1, 1, False)


def test_counters_stand_still_unless_they_are_enabled() -> None:
    network = lower(schedule("tiny_residual"))
    npu = bound(network)
    npu.write(PMEVTYPER0=0x11, PMEVTYPER1=0x11, PMCNTENSET=1)
    npu.device.advance(10)
    assert npu.read("PMEVCNTR0") == 0
    npu.write(PMCR=1)
    npu.device.advance(10)
    npu.write(PMCNTENSET=2)
    npu.device.advance(5)
    npu.write(PMCNTENCLR=1)
    npu.device.advance(1)
    assert [npu.read(f"PMEVCNTR{i}") for i in range(2)] == [15, 6]
    npu.write(PMCR=0)
    npu.device.advance(100)
    assert [npu.read(f"PMEVCNTR{i}") for i in range(2)] == [15, 6]
    assert npu.device.read(AT["PMCNTENCLR"]) == 2
    assert npu.read("CMD") == POWER
    npu.write(CMD=POWER | RUN)
    assert npu.read("CMD") == POWER | RUN
