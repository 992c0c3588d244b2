"""Faults of a run: bus aborts, parse errors, stops, resets, and commands while it runs."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from device_driver import ARENA, BUS, CLEAR_IRQ, CONSTANTS, END, IRQ, LIMITS, PARSE, POWER, RUN, STATE, STOP_REQUEST, STREAM, Bound
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import schedule
from test_device_runs import adapter, bound, expected, outputs, place

from cascader.ethosu.codegen.lowering import lower
from npu_model.compiled.network import CompiledNetwork
from sim.device import BufferBus, Device

IRQ_COMMAND, MASK = 1, 0x0100
STOP_WORD = 0xFFFF_0000
BINDING = {"QCONFIG": 2, "REGIONCFG": 2, "BASEP0": CONSTANTS, "BASEP2": ARENA, "BASEP4": ARENA} | {
    f"AXI_LIMIT{i}": LIMITS for i in range(4)
}


def network() -> CompiledNetwork:
    return lower(schedule("tiny_residual"))


def constants() -> bytes:
    (program,) = network().programs
    return program.regions[0].content


def with_stream(npu: Bound, stream: bytes, arena: bytearray | bytes | None = None, weights: bytes | None = None) -> Bound:
    """The same memories with another command stream, arena or constants; an empty stream is memory that is not there."""
    memories = {STREAM: stream, CONSTANTS: weights or constants(), ARENA: npu.arena if arena is None else arena}
    bus = BufferBus({address: memory for address, memory in memories.items() if memory})
    other = Bound(Device("ethos-u55-128", adapter(), bus), bus, stream, npu.arena)
    other.write(**BINDING)
    return other


def status(npu: Bound) -> int:
    return npu.read("STATUS") & 0x7F


def again(npu: Bound) -> None:
    """Reset and bind as before, and run to the end."""
    npu.write(RESET=0, **BINDING)
    npu.start()
    npu.device.wait()
    assert status(npu) == END | IRQ
    assert npu.device.complaint == ""


@pytest.mark.parametrize(
    ("register", "value", "port", "channel"),
    [("QBASE0", 0x7000_0000, 1, 0), ("BASEP2", 0x7000_0000, 0, 1), ("BASEP0", 0x7000_0000, 1, 2)],
)
def test_memory_that_is_not_there_ends_the_run_in_a_bus_abort(register: str, value: int, port: int, channel: int) -> None:
    npu = bound(network())
    npu.program_queue()
    npu.write(**{register: value, "CMD": POWER | RUN})
    npu.device.wait()
    word = npu.read("STATUS")
    assert word & 0x7F == BUS | IRQ
    assert (word >> 11 & 1, word >> 12 & 15) == (port, channel)
    assert "no memory has the" in npu.device.complaint
    npu.write(CMD=POWER | CLEAR_IRQ)
    npu.write(CMD=POWER | RUN)
    assert status(npu) == BUS, "only a reset ends it"
    again(npu)


def test_memory_that_cannot_be_written_ends_the_run_in_a_bus_abort_of_the_ofm() -> None:
    npu = bound(network())
    other = with_stream(npu, npu.stream, bytes(npu.arena))
    other.start()
    other.device.wait()
    assert status(other) == BUS | IRQ
    assert other.read("STATUS") >> 11 & 31 == 8 << 1
    assert "is read-only" in other.device.complaint


def test_weights_that_no_decoder_takes_are_a_parse_error_before_any_work() -> None:
    npu = bound(network())
    arena = bytes(npu.arena)
    other = with_stream(npu, npu.stream, weights=bytes(len(constants())))
    other.start()
    other.device.wait()
    assert status(other) == PARSE | IRQ
    assert "weight" in other.device.complaint
    assert npu.arena == arena


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.8])
def test_a_queue_that_leaves_memory_runs_up_to_there(cut: float) -> None:
    npu = bound(network())
    kept = int(cut * len(npu.stream)) // 4 * 4
    short = with_stream(npu, npu.stream[:kept])
    short.write(QBASE0=STREAM, QSIZE=len(npu.stream), CMD=POWER | RUN)
    short.device.wait()
    assert status(short) == BUS | IRQ
    assert short.read("STATUS") >> 12 & 15 == 0
    assert short.read("QREAD") <= kept


def test_a_bad_command_is_a_parse_error_after_the_work_before_it() -> None:
    npu = bound(network())
    bad = npu.stream[:-4] + struct.pack("<II", 0x0000_0007, STOP_WORD)
    before = bytes(npu.arena)
    broken = with_stream(npu, bad)
    broken.start()
    broken.device.wait()
    assert status(broken) == PARSE | IRQ
    assert "Command 0x00000007" in broken.device.complaint
    assert broken.arena != before
    assert outputs(network(), broken.arena) == expected(network())
    assert broken.read("QREAD") <= len(bad) - 8
    broken.write(CMD=POWER | CLEAR_IRQ)
    broken.write(CMD=POWER | RUN)
    assert status(broken) == PARSE


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"QSIZE": 6}, "QSIZE is 6"),
        ({"QSIZE": 1 << 24}, "QSIZE is 16777216"),
        ({"QBASE0": 0x1000_0008}, "QBASE is 0x10000008: the core driver takes multiples of 16"),
        ({"BASEP6": 0x1000_0001}, "BASEP of region 3 is 0x10000001"),
    ],
)
def test_what_the_driver_refuses_is_a_parse_error_with_its_reason(values: dict[str, int], sentence: str) -> None:
    npu = bound(network())
    npu.program_queue()
    npu.write(**values)
    npu.write(CMD=POWER | RUN)
    assert status(npu) == PARSE | IRQ
    assert sentence in npu.device.complaint


def test_a_queue_without_a_stop_ends_with_its_last_command() -> None:
    npu = bound(network())
    short = with_stream(npu, npu.stream[:-4])
    short.start()
    short.device.wait()
    assert short.read("STATUS") == END | IRQ
    assert outputs(network(), short.arena) == expected(network())


def test_an_irq_command_raises_the_interrupt_and_the_run_goes_on() -> None:
    npu = bound(network())
    stream = npu.stream[:-4] + struct.pack("<II", MASK << 16 | IRQ_COMMAND, 0x0001_0000)
    other = with_stream(npu, stream)
    other.start()
    other.device.wait()
    assert other.read("STATUS") == STATE | IRQ | MASK << 16
    other.write(CMD=POWER | CLEAR_IRQ)
    assert other.read("STATUS") == STATE | MASK << 16
    other.device.wait()
    assert other.read("STATUS") == END | IRQ | (MASK | 1) << 16
    assert other.bus.interrupts == 2


@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None)
def test_a_run_that_was_stopped_anywhere_and_goes_on_computes_the_same(pauses: list[int]) -> None:
    npu = bound(network())
    npu.start()
    for pause in pauses:
        npu.device.advance(pause)
        npu.write(CMD=POWER | STOP_REQUEST)
        npu.device.wait()
        assert not status(npu) & STATE
        if status(npu) & END:
            break
        assert status(npu) == IRQ
        arena = bytes(npu.arena)
        npu.device.advance(1000)
        assert npu.arena == arena, "nothing happens while it is stopped"
        assert npu.read("QREAD") < len(npu.stream)
        npu.write(CMD=POWER | CLEAR_IRQ | RUN)
    npu.device.wait()
    assert status(npu) == END | IRQ
    assert outputs(network(), npu.arena) == expected(network())


def test_a_stop_counts_the_events_of_what_was_run_alone() -> None:
    npu = bound(network())
    npu.write(PMCR=7, PMCNTENSET=0x8000_0003, PMEVTYPER0=0x30, PMEVTYPER1=0x87, PMCCNTR_CFG=35 | 32 << 16)
    total = bound(network())
    total.write(PMCR=7, PMCNTENSET=3, PMEVTYPER0=0x30, PMEVTYPER1=0x87)
    total.start()
    total.device.wait()
    npu.start()
    npu.device.advance(10_000)
    npu.write(CMD=POWER | STOP_REQUEST)
    npu.device.wait()
    part = [npu.read(f"PMEVCNTR{i}") for i in range(2)]
    whole = [total.read(f"PMEVCNTR{i}") for i in range(2)]
    assert all(0 < some < every for some, every in zip(part, whole, strict=True))
    npu.write(CMD=POWER | CLEAR_IRQ | RUN)
    npu.device.wait()
    assert [npu.read(f"PMEVCNTR{i}") for i in range(2)] == whole


@given(st.integers(0, 60_000))
@settings(max_examples=10, deadline=None)
def test_a_soft_reset_at_any_time_leaves_a_device_that_runs_again(cycle: int) -> None:
    npu = bound(network())
    npu.start()
    npu.device.advance(cycle)
    npu.write(RESET=3)
    assert (npu.read("STATUS"), npu.read("QREAD"), npu.read("CMD"), npu.read("PROT")) == (0, 0, 0xC, 3)
    assert not npu.bus.raised
    npu.device.advance(100_000)
    assert npu.read("STATUS") == 0
    place(network(), npu.arena)
    again(npu)
    assert outputs(network(), npu.arena) == expected(network())


def test_what_is_written_while_it_runs_counts_for_the_next_run() -> None:
    npu = bound(network())
    npu.start()
    npu.device.advance(5000)
    npu.write(CMD=POWER | RUN, QBASE0=0x7000_0000, BASEP2=0x7000_0000, REGIONCFG=0)
    npu.device.wait()
    assert status(npu) == END | IRQ
    assert npu.bus.interrupts == 1
    assert outputs(network(), npu.arena) == expected(network())
    npu.write(CMD=POWER | CLEAR_IRQ)
    npu.write(QSIZE=4, CMD=POWER | RUN)
    npu.device.wait()
    assert status(npu) == BUS | IRQ


def test_a_start_at_the_end_of_the_queue_has_nothing_to_do() -> None:
    npu = bound(network())
    npu.start()
    npu.device.wait()
    npu.write(CMD=POWER | CLEAR_IRQ)
    arena, cycle = bytes(npu.arena), npu.device.cycle
    npu.write(CMD=POWER | RUN)
    assert (status(npu), npu.device.cycle, npu.arena) == (END | IRQ, cycle, arena)


def test_a_stream_for_another_npu_is_a_parse_error() -> None:
    npu = bound(network())
    small = dataclasses.replace(npu, device=Device("ethos-u55-32", adapter(), npu.bus))
    small.write(BASEP0=CONSTANTS, BASEP2=ARENA, BASEP4=ARENA)
    small.start()
    small.device.wait()
    assert status(small) == PARSE | IRQ
    assert "another NPU" in small.device.complaint


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_stream_with_any_bits_turned_ends_in_a_state_of_the_specification_and_within_its_memory(turned: list[tuple[int, int]]) -> None:
    npu = bound(network())
    stream = bytearray(npu.stream)
    for byte, bit in turned:
        stream[byte % len(stream)] ^= 1 << bit
    other = with_stream(npu, bytes(stream))
    other.start()
    for _ in range(len(stream)):
        other.device.wait(1 << 32)
        if not status(other) & STATE:
            break
        other.write(CMD=POWER | CLEAR_IRQ)
    assert status(other) in (END | IRQ, BUS | IRQ, PARSE | IRQ)
    assert bool(other.device.complaint) == (status(other) != END | IRQ)


def test_an_access_behind_the_memory_ends_the_run_after_the_work_before_it() -> None:
    """No time is spent on what an address of terabytes would take."""
    npu = bound(network())
    (program,) = network().programs
    stream = list(struct.unpack(f"<{len(npu.stream) // 4}I", npu.stream))
    length = max(i for i, word in enumerate(stream[:-1]) if word & 0xFFFF == 0x4000 | 0x021)
    stream[length + 1] = 0x7FFF_FF00
    other = with_stream(npu, struct.pack(f"<{len(stream)}I", *stream))
    other.start()
    other.device.wait()
    assert status(other) == BUS | IRQ
    assert other.read("STATUS") >> 11 & 31 == 2 << 1 | 1
    assert 0 < other.read("QREAD") < len(npu.stream)
    assert len(program.kernels) > 1
    assert npu.arena != bytes(len(npu.arena))
