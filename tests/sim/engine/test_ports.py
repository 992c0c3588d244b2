"""The AXI ports: latency, outstanding limits, the timing adapter's cap, arbitration and data paths."""

from __future__ import annotations

from fractions import Fraction

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from small_programs import IDEAL_MEMORY, memory

from npu_model.errors import InputError
from npu_model.memory.system import Memory, MemorySystem, Pulse
from npu_model.program import ByteRange, DmaOperation
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, DMA_CHUNK_BEATS, TimingParameters
from sim.engine.clock import Clock
from sim.engine.commands import copy_chunks
from sim.engine.ports import Ports, PulseGate, transactions
from sim.engine.terms import Channel

EXT_PULSE = Pulse(on=320, off=80, cap_words=50)
BURST = 8
"""Beats of a transaction of 64 bytes."""


class Bench:
    """Both directions of one port, and when each transfer that was asked of it at cycle 0 was complete."""

    def __init__(self, tested: Memory, timing: TimingParameters = DEFAULT_TIMING) -> None:
        self.env = Clock()
        self.ports = Ports(self.env, MemorySystem("test", 1, (tested, IDEAL_MEMORY), (0,) * 8), timing)
        self.done: list[int] = []

    def _watch(self, event: simpy.Event) -> None:
        position = len(self.done)
        self.done.append(-1)

        def note(_: simpy.Event) -> None:
            self.done[position] = self.env.cycle

        event.callbacks.append(note)

    def read(self, *runs: int, channel: Channel = Channel.WEIGHTS) -> Bench:
        self._watch(self.ports.read(0, channel, runs))
        return self

    def write(self, *runs: int) -> Bench:
        self._watch(self.ports.write(0, Channel.OFM, runs))
        return self

    def run(self) -> list[int]:
        self.env.run()
        return self.done


def test_a_beat_passes_every_cycle_and_latency_is_paid_once() -> None:
    assert Bench(memory(latency=100)).read(1000).run() == [1100]
    bench = Bench(memory(latency=100)).write(1000)
    assert [done + bench.ports.response(0) for done in bench.run()] == [1100]


def test_an_empty_transfer_is_complete_at_once() -> None:
    assert Bench(memory(latency=100)).read().run() == [0]


@pytest.mark.parametrize("latency", [0, 5, 64])
def test_with_one_outstanding_transaction_every_burst_pays_the_latency(latency: int) -> None:
    assert Bench(memory(latency, outstanding=1)).read(50 * BURST).run() == [50 * (latency + BURST)]


@pytest.mark.parametrize(("outstanding", "latency"), [(2, 64), (2, 16), (4, 100), (8, 200)])
def test_a_latency_bound_stream_runs_at_outstanding_bursts_per_latency_and_beats(outstanding: int, latency: int) -> None:
    # Fact sheet of the U55, section 7.4: the flash sweeps of the FVP plateau at this rate.
    bursts = 400
    (cycles,) = Bench(memory(latency, outstanding)).read(bursts * BURST).run()
    expected = bursts / outstanding * (latency + BURST)
    assert abs(cycles - expected) <= outstanding * BURST


def test_enough_outstanding_transactions_hide_the_latency() -> None:
    assert Bench(memory(latency=64, outstanding=9)).read(100 * BURST).run() == [64 + 100 * BURST]


def test_ifm_reads_use_bursts_of_half_the_limit() -> None:
    assert Bench(memory(latency=20, outstanding=1)).read(80, channel=Channel.IFM).run() == [80 // 4 * (20 + 4)]


def test_runs_are_not_joined_into_one_transaction() -> None:
    assert Bench(memory(latency=20, outstanding=1)).read(3, 3, 3).run() == [3 * (20 + 3)]


def test_the_transaction_that_crosses_the_cap_passes_whole() -> None:
    # 50 words per 400 cycles: the seventh transaction of 8 words starts at 48 words, so that 56 pass.
    assert Bench(memory(pulse=EXT_PULSE)).read(7 * BURST).run() == [56]
    assert Bench(memory(pulse=EXT_PULSE)).read(8 * BURST).run() == [400 + BURST]


def test_the_cap_sets_the_rate_of_a_long_stream() -> None:
    # 56 words a period: 14 bytes per 100 cycles more than the cap alone would give.
    assert Bench(memory(pulse=EXT_PULSE)).read(100 * 56).run() == [99 * 400 + 56]


def test_reads_and_writes_share_the_cap() -> None:
    read, write = Bench(memory(pulse=EXT_PULSE)).read(7 * BURST).write(BURST).run()
    assert (read, write) == (56, 400 + BURST)


def test_the_cap_is_shared_however_far_the_reads_are_ahead() -> None:
    # Each period of 10 cycles takes one transaction; the reads' first turn fills eight periods at once.
    read, write = Bench(memory(pulse=Pulse(9, 1, 8))).read(8 * BURST).write(BURST).run()
    assert (read, write) == (7 * 10 + BURST, 8 * 10 + BURST)


def _issues(gate: PulseGate, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(gate.admit(time, words), words) for time, words in asked]


@settings(derandomize=True)
@given(
    pulse=st.sampled_from([Pulse(9, 1, 8), Pulse(1, 0, 1), Pulse(320, 80, 50), Pulse(50, 1, 60)]),
    steps=st.lists(st.tuples(st.integers(-30, 60), st.integers(1, 16)), min_size=1, max_size=60),
)
def test_no_cycles_as_many_as_a_period_has_hold_more_than_the_cap_and_the_transaction_that_crosses_it(
    pulse: Pulse, steps: list[tuple[int, int]]
) -> None:
    asked, time = [], 0
    for step, words in steps:
        time = max(0, time + step)
        asked.append((time, words))
    issued = _issues(PulseGate(memory(pulse=pulse), DEFAULT_TIMING), asked)
    length = pulse.on + pulse.off
    for cycle, _ in issued:
        assert cycle % length < pulse.on
        within = [words for other, words in issued if cycle <= other < cycle + length]
        assert sum(within) < pulse.cap_words + max(within)
    # Nothing waits for longer: a cycle earlier the cap would have been reached, or the gate is not on.
    for place, ((wanted, _), (cycle, _)) in enumerate(zip(asked, issued, strict=True)):
        before = sum(words for other, words in issued[:place] if other > cycle - 1 - length)
        assert cycle == wanted or before >= pulse.cap_words or (cycle - 1) % length >= pulse.on


def test_a_period_counts_the_words_of_the_one_before_that_are_not_a_period_old() -> None:
    asked = [(90, 8), (95, 8), (100, 8), (101, 8)]
    pulse, anew = Pulse(99, 1, 16), TimingParameters(sliding_cap=False)
    assert [cycle for cycle, _ in _issues(PulseGate(memory(pulse=pulse), DEFAULT_TIMING), asked)] == [90, 95, 190, 195]
    assert [cycle for cycle, _ in _issues(PulseGate(memory(pulse=pulse), anew), asked)] == [90, 95, 100, 101]


def test_a_pulse_that_is_never_on_is_refused() -> None:
    with pytest.raises(InputError, match="on for 0 cycles"):
        Pulse(0, 80, 50)


def test_a_burst_shorter_than_its_division_moves_a_beat_at_a_time() -> None:
    tiny = replace(memory(latency=3, outstanding=1), burst_bytes=16)
    timing = TimingParameters(ifm_burst_divisor=8)
    assert Bench(tiny, timing).read(5, channel=Channel.IFM).run() == [5 * (3 + 1)]


def test_separate_caps_would_let_the_write_pass() -> None:
    timing = TimingParameters(shared_cap=False)
    assert Bench(memory(pulse=EXT_PULSE), timing).read(7 * BURST).write(BURST).run() == [56, BURST]


def test_no_address_passes_in_the_off_part_of_the_pulse() -> None:
    # One word a transaction and one transaction a cycle: 320 pass, the rest begins with the next period.
    assert Bench(memory(pulse=Pulse(320, 80, 0))).read(*[1] * 330).run() == [400 + 10]


def test_channels_take_turns_of_8_transactions() -> None:
    weights, scales = Bench(memory()).read(16 * BURST).read(16 * BURST, channel=Channel.SCALES).run()
    assert (weights, scales) == (24 * BURST, 32 * BURST)


def test_a_short_request_does_not_use_up_its_channel_s_turn() -> None:
    first, second, third = Bench(memory()).read(BURST).read(BURST).read(BURST, channel=Channel.SCALES).run()
    assert (first, third, second) == (BURST, 2 * BURST, 3 * BURST)


def test_requests_of_one_channel_are_served_in_order() -> None:
    done = Bench(memory(latency=9, outstanding=3)).read(40).read(8).read(16).run()
    assert done == sorted(done)


@pytest.mark.parametrize(("shared", "expected"), [(True, 200), (False, 100)])
def test_a_shared_data_path_carries_reads_and_writes_in_turn(*, shared: bool, expected: int) -> None:
    tested = Memory("test", 0, 0, shared=shared)
    assert max(Bench(tested).read(100).write(100).run()) == expected


@pytest.mark.parametrize("rate", [Fraction(8), Fraction(3, 2), Fraction(10, 3), Fraction(1000, 999)])
def test_a_rate_that_is_no_whole_number_of_cycles_is_exact(rate: Fraction) -> None:
    (cycles,) = Bench(memory(rate=rate)).read(1000).run()
    assert cycles == ceil_div(1000 * rate.numerator, rate.denominator)


def test_beats_are_counted_per_direction() -> None:
    bench = Bench(memory()).read(5, 6).write(7)
    bench.run()
    assert (bench.ports.reads[0].beats, bench.ports.writes[0].beats) == (11, 7)


@settings(derandomize=True)
@given(
    runs=st.lists(st.integers(1, 70), min_size=1, max_size=4).map(tuple), limit=st.sampled_from([4, 8, 16, 32]), phase=st.integers(0, 63)
)
def test_transactions_of_an_aligned_run_never_cross_a_multiple_of_the_burst(runs: tuple[int, ...], limit: int, phase: int) -> None:
    pieces = transactions(runs, limit, phase)
    assert sum(pieces) == sum(runs)
    first = transactions(runs[:1], limit, phase)
    assert pieces == first + [beats for run in runs[1:] for beats in transactions((run,), limit)]
    position = phase
    for beats in first:
        assert beats > 0
        assert position // limit == (position + beats - 1) // limit
        position += beats
    assert transactions(runs, limit) == transactions(runs, limit, limit)


@settings(derandomize=True)
@given(length=st.integers(1, 200), source=st.integers(0, 99), target=st.integers(0, 99), aligned=st.booleans())
def test_the_chunks_of_a_copy_follow_each_other_and_end_where_the_source_s_bursts_do(
    length: int, source: int, target: int, *, aligned: bool
) -> None:
    op = DmaOperation(ByteRange(0, 16 * source, 16 * (source + length)), 16 * target, 1, to_shram=False)
    chunks = copy_chunks(op, 8, aligned=aligned)
    assert sum(beats for _, _, beats in chunks) == 2 * length
    assert all(0 < beats <= DMA_CHUNK_BEATS for _, _, beats in chunks)
    assert all((first + beats) % DMA_CHUNK_BEATS == 0 for first, _, beats in chunks[:-1])
    start = chunks[0]
    assert start[:2] == ((2 * source, 2 * target) if aligned else (0, 0))
    done = 0
    for first, second, beats in chunks:
        assert (first - start[0], second - start[1]) == (done, done)
        done += beats
